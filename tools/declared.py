"""The settings of engines that replay declares, as `replay settings --output json` prints them."""
import functools
import json
import subprocess


@functools.cache
def rows(program, engine):
    """Those that an engine reads, by their names: as in --engine-args, or in the object of the engine there."""
    told = json.loads(subprocess.run([program, "settings", "--output", "json"], capture_output=True, text=True, check=True).stdout)
    known = {}
    for row in told:
        place, _, name = row.get("key", "").rpartition(".")
        if name and place in ("", engine) and row.get("engine", engine) == engine:
            known[name] = row
    return known


def flags(program, engine, settings):
    """Settings of an engine, by their names, as arguments of replay; those without a flag are members of --engine-args."""
    known, args, members = rows(program, engine), [], {}
    for k, v in settings.items():
        if "flag" in known[k]:
            args.append(f"--{known[k]['flag']}={v if isinstance(v, str) else json.dumps(v)}")
        else:
            place, _, name = known[k]["key"].rpartition(".")
            (members.setdefault(place, {}) if place else members)[name] = v
    return [*args, f"--engine-args={json.dumps(members)}"] if members else args
