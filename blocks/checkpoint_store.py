"""A block for the store in which runs save their checkpoints."""

from prefect.blocks.core import Block
from pydantic import Field, HttpUrl

from gpu_core.adapters.checkpoints import open_store, store


class CheckpointStore(Block):
    """The default location for the checkpoints of runs. Can be a directory that is available on all
    machines, or an S3 bucket.

    Example:
        Open the store:
        ```python
        from gpu_core.blocks.checkpoint_store import CheckpointStore

        checkpoint_store = CheckpointStore.load("BLOCK_NAME")
        store = checkpoint_store.open()
        ```
    """

    _block_type_name = "GPU Checkpoint Store"
    _block_type_slug = "gpu-checkpoint-store"
    _documentation_url = HttpUrl("https://docs.prefect.io/v3/concepts/blocks")

    uri: str = Field(
        min_length=1,
        description="The address of the store. Can be the absolute path of a directory, "
        "'file:///directory' or 's3://bucket/prefix'.",
        examples=["s3://bucket/checkpoints"],
    )

    def open(self) -> store.CheckpointStore:
        """Open the store.

        Raises:
            InvalidInput: The address cannot be used.
        """
        return open_store.open_store(self.uri)
