package main

import (
	"fmt"
	"os"
)

func Example() {
	if err := run(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	//                mean TTFT   p99 TTFT   workers   worker-hours   changes
	// 8 workers        52.1 ms     148 ms      8.00          0.415         0
	// HPA              57.2 ms     168 ms     10.25          0.657         5
	// 2.5 requests/s   60.2 ms     238 ms      7.24          0.455         8
}
