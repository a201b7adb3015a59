//! A router policy as a process: replay writes a line for each decision, and reads a worker id.
//!
//! The policy prefers workers with a long cached prefix. It excludes workers with more than twelve requests
//! above the minimum. It requires no crate:
//!
//!     rustc -O -o bin/policy examples/policy-process/rust/policy.rs
//!     replay trace TRACE --workers 8 --policy-process bin/policy

use std::io::{self, BufRead, Write};

fn main() -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut output = io::stdout().lock();
    let mut line = String::new();
    input.read_line(&mut line)?; // the greeting, which this policy does not use
    output.write_all(b"{\"version\": 1, \"facts\": [\"block_tokens\", \"requests\", \"cached_blocks\", \"tokens_to_compute\"]}\n")?;
    output.flush()?;
    let mut numbers: Vec<f64> = Vec::new();
    loop {
        line.clear();
        if input.read_line(&mut line)? == 0 {
            return Ok(()); // end of the replay
        }
        numbers.clear();
        numbers.extend(
            line.split(|c: char| "[],\n".contains(c))
                .filter(|part| !part.is_empty())
                .map(|part| part.parse::<f64>().expect("a number")),
        );
        writeln!(output, "{}", choose(&numbers))?;
        output.flush()?;
    }
}

/// Returns the worker with the highest score, the first of several. numbers has the values of a decision, in the order
/// `[[ids],block_tokens,[requests],[cached],[to compute]]`.
fn choose(numbers: &[f64]) -> f64 {
    let n = (numbers.len() - 1) / 4;
    let (ids, block_tokens, rest) = (&numbers[..n], numbers[n], &numbers[n + 1..]);
    let (requests, cached, to_compute) = (&rest[..n], &rest[n..2 * n], &rest[2 * n..]);
    let fewest = requests.iter().copied().fold(f64::INFINITY, f64::min);
    let mut best = (f64::NEG_INFINITY, ids[0]);
    for i in 0..n {
        let score = cached[i] - to_compute[i] / block_tokens - 0.01 * requests[i];
        if requests[i] <= fewest + 12.0 && score > best.0 {
            best = (score, ids[i]);
        }
    }
    best.1
}
