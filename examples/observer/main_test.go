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
	// requests that gain a token    passes   mean pass   with prompts   share of tokens
	// 1 to 7                         11209     7.44 ms          1.0 %             2.7 %
	// 8 to 15                        12267     8.84 ms          2.5 %             8.6 %
	// 16 to 31                       17323    11.29 ms          5.0 %            24.6 %
	// 32 and more                    23504    15.33 ms          9.5 %            64.1 %
}
