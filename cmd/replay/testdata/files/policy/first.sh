# A policy in a program: everything goes to worker 0.
read greeting
echo '{"version": 1, "facts": ["requests", "oracle.output_tokens"]}'
while read line; do echo 0; done
