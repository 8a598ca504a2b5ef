"""How many operators can be exported to ONNX: the first shipped cases of each are translated, and
nothing is run or judged (two minutes of processor time for one case each).

    python tools/translated.py [CASES_PER_OPERATOR]

Prints the number of operators of which a case was translated, by family, and the most frequent
reasons where none was. Operators that runtimes refuse beforehand (random numbers) are left out.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from consistency import operators
from consistency.backends.runtimes.onnx_runtime import OnnxRuntime
from consistency.backends.runtimes.translation import Translator
from consistency.errors import Unsupported
from consistency.generate.materialize import prepare
from consistency.generate.shipped import cases as shipped
from consistency.operators.declare import Operator

DTYPE = "float32"


def main(arguments: list[str]) -> None:
    per_operator = int(arguments[0]) if arguments else 1
    warnings.simplefilter("ignore")
    runtime, translator = OnnxRuntime(), Translator(None)
    asked, done = Counter[str](), Counter[str]()
    reasons = Counter[str]()
    for operator in operators.registry().values():
        if runtime.unsupported(operator, DTYPE, "forward"):
            continue
        outcomes = [
            failure(translator, operator, number)
            for number in range(min(per_operator, shipped.count(operator, DTYPE)))
        ]
        if outcomes:
            asked[operator.family] += 1
            done[operator.family] += "" in outcomes
            reasons.update(outcomes[:1] if "" not in outcomes else [])
    for family in sorted(asked):
        print(f"{family:16} {done[family]:4} of {asked[family]}")
    print(f"{done.total():,} of {asked.total():,} operators are translated")
    for reason, count in reasons.most_common(12):
        print(f"{count:4}  {reason:.140}")


def failure(translator: Translator, operator: Operator, number: int) -> str:
    """Why a shipped case is not translated; empty if it is."""
    case = shipped.cases(operator, DTYPE)[number]
    built = prepare(case).build()
    try:
        translator.translate(operator, built.args, built.kwargs)
    except Unsupported as error:
        return str(error)
    except Exception as error:  # what torch itself says of the call
        return f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0]
    return ""


if __name__ == "__main__":
    main(sys.argv[1:])
