"""Node affinity as kube-scheduler evaluates it, independent of the code under test."""

from webhook.objects.problem import Json


def meets(labels: dict[str, str], requirements: list[Json]) -> bool:
    return all(meets_one(labels, requirement) for requirement in requirements)


def meets_one(labels: dict[str, str], requirement: Json) -> bool:
    present = requirement["key"] in labels
    in_values = present and labels[requirement["key"]] in requirement.get("values", ())
    return {"In": in_values, "NotIn": not in_values, "Exists": present, "DoesNotExist": not present}[
        requirement["operator"]
    ]


def score(labels: dict[str, str], preferences: list[Json]) -> int:
    return sum(
        preference["weight"]
        for preference in preferences
        if meets(labels, preference["preference"]["matchExpressions"])
    )
