/** One label of a metric; values outside `known` are counted as `other`. */
export type Label = { name: string; known?: ReadonlySet<string> }

/** The value that stands for all values without a series of their own. */
export const other = 'other'

type Shape<Leaf> = { labels: readonly Label[]; create(): Leaf; room: number }

/**
 * The series of a metric as a tree with one level per label: looking one up builds no key and allocates nothing. At most
 * `maxSeries` nodes are created for new label values; further values share the value `other`.
 */
export class SeriesTree<Leaf> {
  readonly #shape: Shape<Leaf>
  readonly #path: readonly string[]
  readonly #children = new Map<string, SeriesTree<Leaf>>()
  #leaf: Leaf | null = null

  private constructor(shape: Shape<Leaf>, path: readonly string[]) {
    this.#shape = shape
    this.#path = path
  }

  static create<Leaf>(labels: readonly Label[], create: () => Leaf, maxSeries = 5_000): SeriesTree<Leaf> {
    return new SeriesTree({ labels, create, room: maxSeries }, [])
  }

  /** The subtree of one value of the next label. */
  child(value: string): SeriesTree<Leaf> {
    return this.#children.get(value) ?? this.#add(value)
  }

  /** The figures of this series; the tree must have been descended by every label. */
  get leaf(): Leaf {
    return (this.#leaf ??= this.#shape.create())
  }

  /** All series with their labels. */
  *entries(): Iterable<{ labels: Record<string, string>; leaf: Leaf }> {
    if (this.#leaf) {
      const names = this.#shape.labels.map(({ name }) => name)
      yield { labels: Object.fromEntries(names.map((name, i) => [name, this.#path[i]!])), leaf: this.#leaf }
    }
    for (const child of this.#children.values()) yield* child.entries()
  }

  #add(value: string): SeriesTree<Leaf> {
    const { known } = this.#shape.labels[this.#path.length]!
    const isForeign = known !== undefined && !known.has(value)
    const name = isForeign || this.#shape.room <= 0 ? other : value
    const existing = this.#children.get(name)
    if (existing) return existing
    this.#shape.room--
    const child = new SeriesTree(this.#shape, [...this.#path, name])
    this.#children.set(name, child)
    return child
  }
}

/** A value that only grows. */
export class Count {
  value = 0
}

/** Observations counted by buckets; `bounds` are the inclusive upper bounds, ascending. */
export class Histogram {
  readonly bounds: readonly number[]
  /** The number of observations of each bucket, and of those above the last bound. */
  readonly counts: Float64Array
  sum = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.counts = new Float64Array(bounds.length + 1)
  }

  observe(value: number): void {
    const { bounds } = this
    let bucket = 0
    while (bucket < bounds.length && value > bounds[bucket]!) bucket++
    this.counts[bucket]!++
    this.sum += value
  }
}
