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
	//                   mean TTFT   p99 TTFT   mean ITL   cached
	// round robin          76.3 ms     274 ms   21.13 ms   63.6 %
	// the KV router        57.5 ms     153 ms   13.77 ms   78.3 %
	// cache, slack 4       61.0 ms     254 ms   13.74 ms   79.0 %
	// cache, slack 12      54.7 ms     186 ms   12.76 ms   81.5 %
	// cache, slack 400     53.0 ms     128 ms   12.92 ms   82.6 %
}
