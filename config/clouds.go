//go:build clouds

package config

// hasClouds is whether this build has the SDKs of clouds.
const hasClouds = true
