package frontend

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
)

// Waiting requests get slots in the order of their arrival. A request that has left the queue gets no slot.
func TestAdmissionOrder(t *testing.T) { synctest.Test(t, admissionOrder) }

func admissionOrder(t *testing.T) {
	a := &admission{places: semaphore.NewWeighted(2), limit: 2, most: 10, patience: time.Hour, note: func(int) {}}
	var began []int
	leave := map[int]func(){}
	abandon := map[int]context.CancelFunc{}
	for n := 1; n <= 7; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		abandon[n] = cancel
		go func() {
			if l, err := a.admit(ctx); err == nil {
				began, leave[n] = append(began, n), l
			}
		}()
		synctest.Wait()
	}
	abandon[4]()
	synctest.Wait()
	for i := range 6 {
		leave[began[i]]()
		synctest.Wait()
	}
	if want := []int{1, 2, 3, 5, 6, 7}; !slices.Equal(began, want) {
		t.Errorf("began in the order %v, want %v", began, want)
	}
	for _, cancel := range abandon {
		cancel()
	}
}
