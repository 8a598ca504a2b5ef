"""``python -m consistency.judge.known`` prints the JSON schema of an expectations file."""

import json

from .schema import json_schema

if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
