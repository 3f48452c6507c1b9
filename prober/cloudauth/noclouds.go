//go:build !clouds

package cloudauth

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"golang.org/x/oauth2"

	"github.com/inference-exporter/inference_exporter/config"
)

// errNoClouds is the error of a build without the SDKs, whose config package accepts no settings that need them.
var errNoClouds = errors.New("this build has no SDKs of clouds")

func findAWS(context.Context, config.SigV4) (aws.CredentialsProvider, error) { return nil, errNoClouds }

func googleToken(config.CloudIdentity) func(context.Context) (oauth2.Token, error) { return noToken }

func azureToken(config.CloudIdentity) func(context.Context) (oauth2.Token, error) { return noToken }

func noToken(context.Context) (oauth2.Token, error) { return oauth2.Token{}, errNoClouds }
