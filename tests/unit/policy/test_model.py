"""Every text and every list of the policy has a bound in the model."""

from collections.abc import Iterator

from msgspec import Struct, inspect

from webhook.policy.model import LabelValue, Policy


def parts(kind: inspect.Type, path: str) -> Iterator[tuple[str, inspect.Type]]:
    """Yield the types below a type, each with its path in the policy."""
    match kind:
        case inspect.Metadata(extra={"shape": shape}):
            yield from parts(inspect.type_info(shape), path)
        case inspect.Metadata():
            yield from parts(kind.type, path)
        case inspect.UnionType():
            for one in kind.types:
                yield from parts(one, path)
        case inspect.StructType():
            for field in kind.fields:
                yield from parts(field.type, f"{path}.{field.encode_name}")
        case inspect.DictType():
            yield path, kind
            yield from parts(kind.key_type, f"{path}[]")
            yield from parts(kind.value_type, f"{path}[]")
        case inspect.ListType() | inspect.VarTupleType():
            yield path, kind
            yield from parts(kind.item_type, f"{path}[]")
        case _:
            yield path, kind


def without_bound(model: type) -> Iterator[str]:
    """Yield each text, list and map in a model that may be of any length."""
    for path, kind in parts(inspect.type_info(model), model.__name__):
        assert not isinstance(kind, inspect.AnyType | inspect.BytesType | inspect.SetType), (path, kind)
        if isinstance(kind, inspect.StrType) and kind.max_length is None and kind.pattern is None:
            yield f"{path}: bound it, with a type of webhook/policy/model.py such as LabelValue or Glob"
        if isinstance(kind, inspect.DictType | inspect.ListType | inspect.VarTupleType) and kind.max_length is None:
            yield f"{path}: bound it, with Meta(max_length=...)"


def test_each_text_and_each_list_of_a_policy_has_a_bound() -> None:
    assert "\n".join(without_bound(Policy)) == ""


def test_a_field_without_a_bound_is_named() -> None:
    class Example(Struct):
        names: tuple[str, ...]
        labels: dict[LabelValue, str | None]

    found = [line.partition(":")[0] for line in without_bound(Example)]
    assert found == ["Example.names", "Example.names[]", "Example.labels", "Example.labels[]"]
