"""Print the flags of `vllm serve` or of sglang.launch_server, from the sources of an installed wheel.

    record.py vllm SITE-PACKAGES > vllm-0.33.0.txt
    record.py sglang SITE-PACKAGES > sglang-0.5.23.txt

A line has a flag and the number of its values: 0, 1, ? (optional) or + (a list).
"""

import ast
import pathlib
import sys



def arity(annotation, keys):
    """Return the number of values of a flag, from its type and from the keywords of its declaration."""
    action = ast.unparse(keys["action"]) if "action" in keys else ""
    if any(word in action for word in ("store_true", "StoreTrue", "BooleanOptional", "Const", "store_const")):
        return "0"
    texts = [ast.unparse(keys[key]) for key in ("nargs", "action_kwargs") if key in keys]
    if any("'?'" in text for text in texts):
        return "?"
    if any(sign in text for text in texts for sign in ("'+'", "'*'")):
        return "+"
    plain = annotation.removeprefix("Optional[")
    if plain.split("|")[0].strip(" ]") == "bool" or plain.startswith("bool"):
        return "0"
    if any(part.strip().lower().startswith(("list[", "tuple[", "sequence[")) for part in plain.split("|")) and "type_parser" not in keys:
        return "+"
    return "1"


def classes(path):
    return {n.name: n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ClassDef)}


def fields(node):
    return {n.target.id: n for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}


def calls(node):
    for n in ast.walk(node):
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "add_argument":
            names = [a.value for a in n.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            if names and all(name.startswith("-") for name in names):
                yield names, n


def vllm(site):
    flags = {}
    engine = classes(site / "vllm/engine/arg_utils.py")
    types = {}
    for name in ("EngineArgs", "AsyncEngineArgs"):
        types |= {k: ast.unparse(v.annotation) for k, v in fields(engine[name]).items()}
    front = classes(site / "vllm/entrypoints/common/cli_args.py")
    for name in ("BaseFrontendArgs", "FrontendArgs"):
        for field, node in fields(front[name]).items():
            flags["--" + field.replace("_", "-")] = arity(ast.unparse(node.annotation), {})
    for node in [engine["EngineArgs"], engine["AsyncEngineArgs"], *ast.walk(ast.parse((site / "vllm/entrypoints/common/cli_args.py").read_text()))]:
        if isinstance(node, ast.ClassDef) or isinstance(node, ast.FunctionDef) and node.name == "make_arg_parser":
            for names, call in calls(node):
                long = [n for n in names if n.startswith("--")] or names
                n = arity(types.get(long[0].strip("-").replace("-", "_"), ""), {k.arg: k.value for k in call.keywords if k.arg})
                flags |= {name: n for name in names}
    for name, n in list(flags.items()):  # argparse.BooleanOptionalAction
        if n == "0" and name.startswith("--") and name not in ("--headless", "--grpc"):
            flags["--no-" + name[2:]] = "0"
    flags["-O"] = flags["--optimization-level"] = "1"
    flags["--hf-token"] = "?"  # its type sets nargs
    flags.pop("--no-hf-token", None)
    return flags


def sglang(site):
    flags = {}
    for path in sorted((site / "sglang/srt/arg_groups/fields").glob("*.py")):
        for node in classes(path).values():
            for field, f in fields(node).items():
                a = f.annotation
                if not (isinstance(a, ast.Subscript) and ast.unparse(a.value) == "A"):
                    continue
                kind, meta = a.slice.elts[0], a.slice.elts[1]
                keys = {}
                if isinstance(meta, ast.Call):
                    if ast.unparse(meta.func) != "Arg":
                        continue
                    keys = {k.arg: k.value for k in meta.keywords}
                if "no_cli" in keys:
                    continue
                names = [ast.literal_eval(keys["cli_name"]) if "cli_name" in keys else "--" + field.replace("_", "-")]
                names += ast.literal_eval(keys["aliases"]) if "aliases" in keys else []
                flags |= {name: arity(ast.unparse(kind), keys) for name in names}
    for names, call in calls(ast.parse((site / "sglang/srt/server_args.py").read_text())):
        flags |= {name: arity("", {k.arg: k.value for k in call.keywords if k.arg}) for name in names}
    return flags


if __name__ == "__main__":
    for name, n in sorted({"vllm": vllm, "sglang": sglang}[sys.argv[1]](pathlib.Path(sys.argv[2])).items()):
        print(name, n)
