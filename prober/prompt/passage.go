package prompt

// ReferencePassage is the text whose log-probability is watched. It never
// changes: a change would look like one of the model.
const ReferencePassage = `The old mill at the bend of the river has not ground any flour for sixty years, yet people still come to look at it. ` +
	`Its wheel is stuck, half of the roof is gone, and a young birch has taken root where the miller used to keep his sacks. ` +
	`On Sundays the path along the bank is full of families from the town. ` +
	`Children throw stones into the deep water below the weir and argue about how far down it goes, while their parents spread blankets on the grass and open baskets with bread, cheese and cold tea.

` +
	`Nobody remembers exactly why the mill was closed. Some say that the railway made it cheaper to bring flour from the coast. ` +
	`Others tell of a flood that broke the gates one night in March, after a week of rain, and left a layer of mud as high as a table in every room. ` +
	`The records of the parish mention both, but they also mention a quarrel between two brothers, and in a village a quarrel often explains more than the weather does.

` +
	`Last autumn a group of engineers measured the fall of the stream and wrote a short report. ` +
	`A small turbine, they found, could supply forty houses with electricity for most of the year, provided that fish were given a way around it. ` +
	`The council has asked for a second opinion and will vote before the end of June. ` +
	`Until then the mill stays what it has been for so long: a quiet place with thick walls, where swallows nest and where, if you stand still for a minute, you can hear the water do its patient work.`
