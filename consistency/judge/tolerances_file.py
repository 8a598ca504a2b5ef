"""The schema of a tolerances file as a pydantic model; descriptions and ranges also appear in
the JSON schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ..core.dtypes import ALL, FLOATING
from ..core.dtypes import COMPLEX as COMPLEX_DTYPES
from ..errors import did_you_mean
from .file_vocabulary import (
    OLD_FAMILIES,
    UNSAID,
    FileModel,
    Ratio,
    Text,
    Versions,
    mistake,
    without_clutter,
)
from .known import schema
from .known.schema import ExpectationEntry

SYNONYMS = {
    "max_ulp": "c",
    "ulp": "c",
    "ulps": "c",
    "lam": "lambda",
    "atol": "absolute",
    **schema.SYNONYMS,
}
DTYPE_KEYS = (*FLOATING, *COMPLEX_DTYPES, "any")


def split(key: str) -> tuple[str, ...]:
    """``("float16", "bfloat16")`` for the key ``"float16, bfloat16"``."""
    return tuple(name.strip() for name in key.split(","))


def _check_dtypes(key: str) -> str:
    for name in split(key):
        if name in ALL and name not in DTYPE_KEYS:
            raise mistake("needs no entry: integers and booleans are always compared exactly")
        if name not in DTYPE_KEYS:
            suggestion = (
                did_you_mean(name, (*DTYPE_KEYS, "backward", "source"))
                or f"; known: {', '.join(DTYPE_KEYS)}"
            )
            raise mistake(f"is not a key here: {name!r:.80} is no dtype{suggestion}")
    return key


def _check_operators(key: str) -> str:
    if not all(split(key)):
        raise mistake("has an empty name between its commas")
    return key


Bound = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Dtypes = Annotated[str, AfterValidator(_check_dtypes)]
Operators = Annotated[str, AfterValidator(_check_operators)]
Family = Annotated[Literal[
    "unary", "binary", "ternary", "comparison", "cast", "reduction", "cumulative", "matmul",
    "convolution",
    "normalization", "softmax", "activation", "pooling", "loss", "indexing", "movement", "sorting",
    "linalg", "fft",
    "interpolate", "embedding", "attention", "rnn", "creation", "random", "inplace", "masked",
    "polynomial", "signal", "quantization",
    "programs", "formulas", "derivatives", "own steps", "sequences", "foreach", "optimizers",
], BeforeValidator(lambda name: OLD_FAMILIES.get(name, name))]  # fmt: skip


# Only `absolute` may be null in the file, which removes an inherited bound.


class Range(FileModel):
    """Other bounds where an argument lies in [low, high]; what is left out is as in the entry."""

    argument: int = Field(
        default=0, ge=0, description="position of the argument that the range is about"
    )
    low: Finite = Field(default=UNSAID, description="left out: no lower end")
    high: Finite = Field(default=UNSAID, description="left out: no upper end")
    c: Bound = Field(default=UNSAID, description="ulp of the output dtype")
    lam: Bound = Field(
        default=UNSAID, alias="lambda", description="factor on the accumulation term G(n)·u·S"
    )
    absolute: Ratio = Field(
        default=UNSAID,
        description="in the output's units: where no error is larger, c and lambda do not matter",
    )
    outside: Literal["unspecified"] = Field(
        default=UNSAID, description="elements outside of the range are not judged"
    )

    @field_validator("high")
    @classmethod
    def _ordered(cls, high: float, info: ValidationInfo) -> float:
        low = info.data.get("low")
        if low is not None and low >= high:
            raise mistake(f"is {high:g}; it must be greater than low")
        return high


class Freedoms(FileModel):
    """What a backend is free to do."""

    flush_subnormals: bool = Field(
        default=UNSAID, description="subnormals may become zero, going in or coming out"
    )
    nan_in_max: Literal["propagate", "any"] = Field(
        default=UNSAID, description="min and max of (NaN, x)"
    )
    signed_zero: Literal["strict", "any"] = Field(
        default=UNSAID, description="whether the sign of a zero counts"
    )
    saturating_casts: Literal["never", "floats", "any"] = Field(
        default=UNSAID,
        description=(
            "what may become the integer's limit in a cast: no number, floats beyond its "
            "range (undefined in C++), or any"
        ),
    )
    reduced_precision: bool = Field(
        default=UNSAID, description="TF32 and the like warn instead of fail"
    )
    nondeterminism: Literal["none", "rounding"] = Field(
        default=UNSAID,
        description=(
            "whether repeating a call may give other bits: never, or by rounding (atomic additions)"
        ),
    )
    strides: Literal["documented", "stated", "cpu", "any"] = Field(
        default=UNSAID,
        description=(
            "the strides of new results: those that torch documents (memory formats), those "
            "that its shape functions state, the memory formats that torch's CPU chooses, or any"
        ),
    )
    overflow: Literal["infinity", "any"] = Field(
        default=UNSAID,
        description=(
            "beyond the largest number: infinity, or any of that number and infinity "
            "(rounding toward zero)"
        ),
    )


def _source_is_optional(schema: dict[str, Any]) -> None:
    schema.pop("required")  # for editors: it may be given one level up


class RuleNumbers(FileModel):
    """Bounds and limits of one dtype."""

    model_config = ConfigDict(json_schema_extra=_source_is_optional)

    c: Bound = Field(default=UNSAID, description="ulp of the output dtype")
    lam: Bound = Field(
        default=UNSAID, alias="lambda", description="factor on the accumulation term G(n)·u·S"
    )
    absolute: Ratio | None = Field(
        default=UNSAID,
        description="in the output's units: where no error is larger, c and lambda do not matter",
    )
    ranges: list[Range] = Field(
        default=UNSAID, description="other bounds where an argument lies in a range"
    )
    rmse_ratio: Ratio = Field(
        default=UNSAID, description="most × the CPU's root mean square error in the same dtype"
    )
    scaled_ratio: Ratio = Field(
        default=UNSAID, description="most × the CPU's largest e/S in the same dtype"
    )
    sign_bias: Ratio = Field(default=UNSAID, description="most |n₊−n₋|/√n")
    source: Text = Field(description="where the numbers come from")


class RuleEntry(RuleNumbers, Freedoms):
    """Bounds, limits and freedoms of one dtype."""


def _hand_down(source: Any, child: Any) -> Any:
    return (
        {"source": source} | child
        if source and isinstance(source, str) and isinstance(child, dict)
        else child
    )


def _hand_down_all(source: Any, table: Any) -> Any:
    return (
        {key: _hand_down(source, child) for key, child in table.items()}
        if isinstance(table, dict)
        else table
    )


def _name_dtypes(schema: dict[str, Any]) -> None:
    """For editors: list the dtype keys, which the model keeps in dictionaries, by name."""
    several = rf"^({'|'.join(DTYPE_KEYS)})(, *({'|'.join(DTYPE_KEYS)}))+$"
    for table, target in (
        (schema["properties"].pop("(dtypes)"), schema),
        2 * (schema["properties"]["backward"],),
    ):
        entry = table.pop("additionalProperties")
        target.setdefault("properties", {}).update(dict.fromkeys(DTYPE_KEYS, entry))
        target |= {"patternProperties": {several: entry}, "additionalProperties": False}


class RuleBlock(FileModel):
    """Entries by dtype: float32, float64, float16, bfloat16, any, or several such as "float16,
    bfloat16"."""

    model_config = ConfigDict(json_schema_extra=_name_dtypes)

    source: Text = Field(
        default=UNSAID, description="where the numbers come from, unless an entry says so"
    )
    backward: dict[Dtypes, RuleNumbers] = Field(
        default={}, description="gradients, if twice the forward will not do"
    )
    dtypes: dict[Dtypes, RuleEntry] = Field(default={}, alias="(dtypes)")

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        own = {key: value for key, value in data.items() if key in ("source", "backward")}
        own["(dtypes)"] = {key: value for key, value in data.items() if key not in own}
        tables = own.keys() - {"source"}
        return own | {key: _hand_down_all(own.get("source"), own[key]) for key in tables}


class Scope(FileModel):
    """Rules for all backends or for one, from the least to the most specific."""

    policy: Freedoms = Field(default=Freedoms(), description="for every operator and dtype")
    defaults: RuleBlock = Field(
        default=RuleBlock(), validate_default=True, description="for every operator, by dtype"
    )
    families: dict[Family, RuleBlock] = Field(default={}, description="by family of operators")
    operators: dict[Operators, RuleBlock] = Field(
        default={},
        description="by names as in PyTorch's OpInfo, or by globs, with commas between them",
    )


class Override(Scope):
    """Rules for one backend; what they say wins over everything that is said for all backends."""

    device: Text = Field(default="*", description="glob on the device's name")
    driver: Versions = Field(
        default="", description="range of driver versions such as '>=31.0.15,<32'"
    )
    source: Text = Field(
        default=UNSAID, description="where the numbers come from, unless something below says so"
    )

    @model_validator(mode="before")
    @classmethod
    def _sources(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        source = data.get("source")
        tables = {
            key: _hand_down_all(source, data[key])
            for key in ("families", "operators")
            if key in data
        }
        return (
            data
            | tables
            | ({"defaults": _hand_down(source, data["defaults"])} if "defaults" in data else {})
        )


def _one_or_many(schema: dict[str, Any]) -> None:
    many = schema["additionalProperties"]
    schema["additionalProperties"] = {"anyOf": [many["items"], many]}


Overrides = Annotated[
    list[Override], BeforeValidator(lambda said: [said] if isinstance(said, dict) else said)
]


class _Start(FileModel):
    # A base class so that it is validated before `defaults`, whose check needs it.
    extends: Literal["packaged"] | None = Field(
        default=UNSAID, description="add this file to the packaged one"
    )


class File(Scope, _Start):
    """Tolerances: what counts as rounding, by operator, dtype, direction and backend."""

    backends: dict[str, Overrides] = Field(
        default={},
        description="by name of the backend, or by glob on its whole spec",
        json_schema_extra=_one_or_many,
    )
    expectations: list[ExpectationEntry] = Field(default=[])

    @field_validator("defaults")
    @classmethod
    def _complete(cls, defaults: RuleBlock, info: ValidationInfo) -> RuleBlock:
        covered = {
            name
            for key, entry in defaults.dtypes.items()
            for name in split(key)
            if {"c", "lam"} <= entry.model_fields_set
        }
        missing = [
            name
            for name in FLOATING
            if not covered & {name, "any", "float32" if name == "float64" else name}
        ]
        if missing and info.data.get("extends") is None:
            dtypes = ", ".join(missing)
            raise mistake(
                f"lacks c and lambda for {dtypes}; add defaults.any with both, or extends: packaged"
            )
        return defaults


def json_schema() -> dict[str, Any]:
    """The JSON schema of a tolerances file, for editors."""
    schema: dict[str, Any] = without_clutter(File.model_json_schema())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema
