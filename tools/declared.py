"""The engine settings of replay, from the output of `replay settings --output json`."""
import functools
import json
import subprocess


@functools.cache
def rows(program, engine):
    """Return the settings of an engine by name. The name is a key of --engine-args or of the engine's object there."""
    told = json.loads(subprocess.run([program, "settings", "--output", "json"], capture_output=True, text=True, check=True).stdout)
    known = {}
    for row in told:
        place, _, name = row.get("key", "").rpartition(".")
        if name and place in ("", engine) and row.get("engine", engine) == engine:
            known[name] = row
    return known


def flags(program, engine, settings):
    """Return settings of an engine as arguments of replay. Settings without a flag are keys of --engine-args."""
    known, args, members = rows(program, engine), [], {}
    for k, v in settings.items():
        if "flag" in known[k]:
            args.append(f"--{known[k]['flag']}={v if isinstance(v, str) else json.dumps(v)}")
        else:
            place, _, name = known[k]["key"].rpartition(".")
            (members.setdefault(place, {}) if place else members)[name] = v
    return [*args, f"--engine-args={json.dumps(members)}"] if members else args
