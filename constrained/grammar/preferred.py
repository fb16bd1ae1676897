from ..regex import Expr, parse_python
def preferred(source: str) -> Expr:
    return parse_python(source)
