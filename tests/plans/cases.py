"""The plans that are looked at: a sample under a mesh, a layout and sizes."""

MLP = "samples/mlp.mesh"
BLOCKS = "samples/transformer_block.mesh"
# The same without a loop.
BLOCKS_WRITTEN_OUT = "bench/blocks_written_out.mesh"

SMALL_BLOCKS = [f"-D{name}={size}" for name, size in {
    "batch": 6, "pos": 5, "d_model": 9, "heads": 3, "d_head": 4, "d_ff": 7}.items()]

CASES = {
    "mlp": [MLP],
    "mlp-data": [MLP, "--mesh", "data=4", "--layout", "batch=data"],
    "mlp-pixel": [MLP, "--layout", "batch=data,pixel=model"],
    "mlp-uneven": [MLP, "-Dbatch=10", "-Dhidden=7", "--mesh", "data=2,model=3",
                   "--layout", "batch=model,hidden=data"],
    "mlp-two-axes": [MLP, "--mesh", "a=2,b=2,c=2", "--layout", "batch=c,hidden=a+b"],
    "mlp-gpus": [MLP, "--target", "cuda"],
    # One more collective, of 4 bytes.
    "clipped": ["tests/recipes/clipped.mesh"],
    "accumulated": ["tests/recipes/accumulated.mesh"],
    # Windows, and what is computed of them, are not in memory.
    "windowed": ["bench/cliffs/windowed.mesh"],
    # Masks are drawn again in the backward phase, and none is kept.
    "dropout": ["tests/plans/dropout.mesh"],
    # State of the model, in loops and shared.
    "normed": ["tests/state/normed.mesh", "--mesh", "data=2,model=3",
               "--layout", "batch=data,c=model"],
    "positions": ["tests/plans/positions.mesh"],
    "recurrent-calls": ["tests/plans/recurrent_calls.mesh"],
    "blocks": [BLOCKS],
    "recomputed": [BLOCKS, "--recompute", "layer/*"],
    "blocks-bf16": [BLOCKS, "--precision", "bf16"],
    "blocks-gpus": [BLOCKS, "--target", "cuda"],
    "blocks-data": [BLOCKS, "--mesh", "data=8", "--layout", "batch=data"],
    "blocks-written-out": [BLOCKS_WRITTEN_OUT],
    "blocks-d-model": [BLOCKS, *SMALL_BLOCKS, "--mesh", "a=2,b=3",
                       "--layout", "batch=a,d_model=b"],
    "blocks-key-pos": [BLOCKS, *SMALL_BLOCKS, "--mesh", "a=2,b=3",
                       "--layout", "key_pos=a,heads=b,d_ff=b"],
}
