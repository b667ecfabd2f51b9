"""The page of an experiment, where people look."""

from prefect import task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE


@task(cache_policy=NO_CACHE)
def publish_page(page: str, key: str, description: str) -> None:
    """Publish the page of an experiment as an artifact of its run.

    Args:
        page: Markdown.
        key: Under which Prefect lists all pages of this experiment.
        description: What the page is about.
    """
    create_markdown_artifact(page, key=key, description=description)
