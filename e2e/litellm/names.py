"""Prints every name of LiteLLM's source that may be a request's field, one a line.

These are the names of arguments, keywords, attributes of classes, and texts that look like names:
keys of dictionaries, what get and pop read, and members of lists.
"""

import ast
import importlib.util
import pathlib
import re
import sys
import warnings

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")

warnings.simplefilter("ignore", SyntaxWarning)
names = set()
for package in sys.argv[1:]:
    for file in pathlib.Path(importlib.util.find_spec(package).origin).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, (ast.arg, ast.keyword)) and node.arg:
                names.add(node.arg)
            elif isinstance(node, (ast.AnnAssign, ast.Assign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names.update(target.id for target in targets if isinstance(target, ast.Name))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
                names.add(node.value)
print("\n".join(sorted(names)))
