"""Runs many repro.py in one interpreter that knows nothing of this project: FILE holds [[name,
text], …]; prints a JSON object.

``python -I -S artifact_runner.py SITE-PACKAGES FILE [FOLDER]``: FOLDER holds a sitecustomize.py
that plants faults. Of each script it says ``passed`` or what ended it.
"""

import contextlib
import importlib.util
import io
import json
import pathlib
import sys
import warnings

sys.path.append(sys.argv[1])
# An installation in place leaves an empty folder of that name behind, without a module in it.
known = importlib.util.find_spec("consistency")
assert known is None or known.origin is None, "this interpreter knows the project"
scripts = json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
faulty = sys.argv[3:]
import torch  # noqa: E402

torch.set_num_threads(1)
if faulty:
    sys.path.insert(0, faulty[0])
    importlib.import_module("sitecustomize")
sys.argv = ["repro.py"]
found = {}
for name, text in scripts:
    printed = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
        warnings.simplefilter("ignore")
        state = torch.get_num_threads(), torch.backends.mkldnn.enabled
        try:
            exec(
                compile(text, f"{name}/repro.py", "exec"),
                {"__name__": "__main__", "__file__": f"{name}/repro.py"},
            )
            outcome = "passed"
        except SystemExit as error:
            outcome = "passed" if not error.code else f"exit: {error.code}"
        except BaseException as error:
            outcome = f"{type(error).__name__}: {str(error)[:300]}"
        torch.set_num_threads(state[0])
        torch.backends.mkldnn.enabled = state[1]
    found[name] = [outcome, printed.getvalue()]
assert "consistency.core.model" not in sys.modules
print(json.dumps(found))
