//go:build !linux

package online

func newAlarm() alarm { return newSleeper() }
