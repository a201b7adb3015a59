# A policy in a program that turns everybody away.
read greeting
echo '{"version": 1, "hold": true}'
while read line; do echo '"shed"'; done
