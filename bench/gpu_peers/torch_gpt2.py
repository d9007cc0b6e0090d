"""GPT-2 in PyTorch: transformers' model with PyTorch's fused attention, compiled, under
autocast, with its fused Adam. Answers as worker.py says, without --check: that
samples/gpt2.mesh is this model is tested in tests/weights."""

import argparse

import torch
import transformers

import worker

SIZES = {"batch": 16, "pos": 1024, "d_model": 768, "heads": 12, "layers": 12, "vocab": 50257}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, size in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    return parser.parse_args()


def make_model(arguments):
    config = transformers.GPT2Config(
        vocab_size=arguments.vocab, n_positions=arguments.pos, n_embd=arguments.d_model,
        n_layer=arguments.layers, n_head=arguments.heads,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False)
    return transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="sdpa").to(arguments.device).train()


def main():
    arguments = parse_arguments()
    model = make_model(arguments)
    tokens = torch.randint(arguments.vocab, (arguments.batch, arguments.pos),
                           device=arguments.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)

    @torch.compile
    def get_loss(tokens):
        with torch.autocast(arguments.device, torch.bfloat16):
            return model(input_ids=tokens, labels=tokens).loss

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = get_loss(tokens)
        loss.backward()
        optimizer.step()
        return loss.item()

    worker.serve({"torch": torch.__version__, "transformers": transformers.__version__}, step)


main()
