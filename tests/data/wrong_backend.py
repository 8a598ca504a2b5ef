"""A backend whose sums are a thousandth too large where they have more than four terms."""

import consistency


class Wrong(consistency.Backend):
    name = "wrong"

    def environment(self):
        return {"device": "Planted 3000", "driver": "31.0.2", "torch": "2.13.0"}

    def call(self, operator, args, kwargs):
        result = super().call(operator, args, kwargs)
        large = operator.name == "matmul" and args[0].shape[-1] > 4
        return result * 1.001 if large or operator.name == "neg" else result


backend = Wrong()
