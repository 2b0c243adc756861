"""What all API models share: camelCase, no unknown fields, CEL rules, and string types with bounds.

Source of the conventions: the Kubernetes API conventions and its structural schemas.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


@dataclass(frozen=True)
class Rule:
    """One CEL rule of the CRD: `message` tells the user what to change, `field_path` (relative) is where it points."""

    rule: str
    message: str
    field_path: str = ""
    reason: str = "FieldValueInvalid"


class ApiModel(BaseModel):
    """Base of all API models. `rules` become `x-kubernetes-validations` of the object's schema."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid")
    rules: ClassVar[tuple[Rule, ...]] = ()


def schema(**extra: Any) -> Callable[[dict[str, Any]], None]:
    """Extra keys for a field's schema, such as `x-kubernetes-list-type`."""

    def apply(node: dict[str, Any]) -> None:
        node.update(extra)

    return apply


QUANTITY_PATTERN = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
Quantity = Annotated[
    int | str,
    Field(
        json_schema_extra=schema(
            **{
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": QUANTITY_PATTERN,
                "maxLength": 32,
            }
        )
    ),
]
"""A resource quantity, as a number or a string."""

ResourceList = Annotated[dict[Annotated[str, Field(max_length=317)], Quantity], Field(max_length=16)]
"""Resource name to quantity, as in a container's `resources.requests`."""

DnsLabel = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
DnsSubdomain = Annotated[
    str,
    Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
]
LabelMap = Annotated[
    dict[Annotated[str, Field(max_length=317)], Annotated[str, Field(max_length=63)]], Field(max_length=32)
]
Seconds = Annotated[int, Field(ge=0, le=31_536_000)]
FreeForm = dict[str, Any]
"""An object whose fields the schema does not know (`x-kubernetes-preserve-unknown-fields`)."""


def free_form(description: str, max_properties: int = 64) -> Any:
    """A field for a free-form object, bounded in its keys; its total size is checked by the operator and the CLI."""
    return Field(
        default_factory=dict,
        description=description,
        json_schema_extra={
            "x-kubernetes-preserve-unknown-fields": True,
            "maxProperties": max_properties,
            "type": "object",
        },
    )
