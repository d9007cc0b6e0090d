"""A model of as many layers of attention as asked, written out."""

import sys

print("""dim batch = 4
dim pos = 2048
dim key = pos
dim d = 4
fn attend(x) {
  let k = rename(x, pos -> key)
  let scores = einsum(x, k -> batch, pos, key)
  return x + einsum(softmax(scores, over = key), k -> batch, pos, d)
}
model layers(x: f32[batch, pos, d]) {
  let h0 = x""")
for layer in range(int(sys.argv[1])):
    print(f"  let h{layer + 1} = attend(h{layer}) as layer{layer}")
print(f"  output y = h{sys.argv[1]}\n}}")
