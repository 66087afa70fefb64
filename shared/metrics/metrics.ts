import { Registry } from 'prom-client'
import { errorCodes } from '../base/errors.ts'
import { countUnknown, unknownKinds } from '../base/unknown-names.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { type Definition, definitions, durationBounds, overheadBounds } from './definitions.ts'
import {
  addMetric,
  addProcessMetrics,
  countValues,
  histogramValues,
  type MetricValues,
  readValues,
  renderMetrics,
  type Value,
} from './registry.ts'
import { Count, Histogram, type Label, SeriesTree } from './series.ts'

/** A finished HTTP request or realtime session; the texts are '' where there is none. */
export type FinishedRequest = {
  /** Method and path of the endpoint, as documented. */
  endpoint: string
  model: string
  provider: string
  status: number
  errorCode: string
  environment: 'live' | 'test' | ''
  streamed: boolean
  durationMs: number
  /** The gateway's own time; null = not measured. */
  ownMs: number | null
}

/** The usage of a charged request: the fields of a usage event that are counted. */
export type ChargedUsage = {
  environment: 'live' | 'test'
  kind: string
  model: string
  provider: string | null
  cost: number
  promptTokens?: number
  completionTokens?: number
  cachedTokens?: number
  cacheWriteTokens?: number | null
  reasoningTokens?: number
  waiver?: string | null
  /** Whether the answer is from the response cache: then no provider was used. */
  cached?: boolean | null
  /** Set for the parts of a session, whose token counts are cumulative. */
  part?: number
}

type NamedTarget = { model: { id: string }; provider: { name: string } }

/** The figures of a model at a provider. */
class TargetFigures {
  readonly calls = new Histogram(durationBounds)
  readonly firstChunks = new Histogram(durationBounds)
  inputTokens = 0
  outputTokens = 0
  cacheReadTokens = 0
  cacheWriteTokens = 0
  reasoningTokens = 0
  spendNano = 0
  providerNano = 0
  statedNano = 0
  listedNano = 0
}

const tokenFields = ['inputTokens', 'outputTokens', 'cacheReadTokens', 'cacheWriteTokens', 'reasoningTokens'] as const
const statusClasses = ['', '1xx', '2xx', '3xx', '4xx', '5xx']
const streamedLabel = { true: 'true', false: 'false' } as const
/** The codes of the API, that of a client which disconnected, and none. */
const knownCodes = new Set<string>([...errorCodes, 'client_closed_request', ''])

type MetricsOptions = {
  catalog: Catalog
  /** Parts per million added to the prices of providers. */
  marginPpm: bigint
  embeddingsSurchargePpm: bigint
}

/**
 * The metrics of one process. Recording adds to plain numbers; texts are only built for a scrape. Labels have values of the
 * catalog, of our own lists and of the endpoints, never those of a client.
 */
export class Metrics {
  readonly registry = new Registry()
  readonly #catalog: Catalog
  readonly #factors: { embedding: number; others: number }
  readonly #requests: SeriesTree<Count>
  readonly #durations = SeriesTree.create(
    [{ name: 'endpoint' }, { name: 'streamed' }],
    () => new Histogram(durationBounds),
  )
  readonly #overheads = SeriesTree.create([{ name: 'endpoint' }], () => new Histogram(overheadBounds))
  readonly #calls: SeriesTree<Count>
  readonly #targets: SeriesTree<TargetFigures>
  readonly #waived = SeriesTree.create([{ name: 'reason' }], () => new Count())
  readonly #cachedAnswers: SeriesTree<Count>
  readonly #jobs = SeriesTree.create([{ name: 'kind' }, { name: 'status' }], () => new Count())
  readonly #exportBatches = SeriesTree.create([{ name: 'stream' }, { name: 'outcome' }], () => new Count())
  readonly #exportRows = SeriesTree.create([{ name: 'stream' }], () => new Count())
  readonly #guards = SeriesTree.create([{ name: 'side' }, { name: 'guard' }, { name: 'outcome' }], () => new Count())
  readonly #deliveries = SeriesTree.create([{ name: 'outcome' }], () => new Count())
  /** Every name that a catalog of this process has had. */
  readonly #models = new Set([''])
  readonly #providers = new Set([''])
  readonly #scrapeErrors = SeriesTree.create([{ name: 'store' }], () => new Count())

  constructor({ catalog, marginPpm, embeddingsSurchargePpm }: MetricsOptions) {
    this.#catalog = catalog
    this.#factors = { embedding: factorOf(embeddingsSurchargePpm), others: factorOf(marginPpm) }
    this.addNames(catalog)
    const model: Label = { name: 'model', known: this.#models }
    const provider: Label = { name: 'provider', known: this.#providers }
    const code: Label = { name: 'error_code', known: knownCodes }
    const labels = [{ name: 'endpoint' }, model, provider, { name: 'status_class' }, code, { name: 'env' }]
    this.#requests = SeriesTree.create(labels, () => new Count())
    this.#cachedAnswers = SeriesTree.create([model], () => new Count())
    this.#calls = SeriesTree.create([provider, model, { name: 'outcome' }], () => new Count())
    this.#targets = SeriesTree.create([provider, model], () => new TargetFigures())
    this.#addAll()
  }

  /** Gives the models and providers of a new catalog series of their own. */
  addNames({ models, providers }: Pick<Catalog, 'models' | 'providers'>): void {
    for (const id of models.keys()) this.#models.add(id)
    for (const name of providers.keys()) this.#providers.add(name)
  }

  recordRequest(request: FinishedRequest): void {
    const { endpoint, model, provider, status, errorCode, environment, streamed, durationMs, ownMs } = request
    const outcome = statusClasses[Math.floor(status / 100)] ?? ''
    this.#requests.child(endpoint).child(model).child(provider).child(outcome).child(errorCode).child(environment).leaf
      .value++
    this.#durations
      .child(endpoint)
      .child(streamedLabel[`${streamed}`])
      .leaf.observe(durationMs / 1_000)
    if (ownMs !== null) this.#overheads.child(endpoint).leaf.observe(ownMs / 1_000)
  }

  /** Counts a call to a provider. `durationMs`: of a successful one whose duration is meaningful. */
  recordCall({ provider, model }: NamedTarget, outcome: string, durationMs: number | null): void {
    this.#calls.child(provider.name).child(model.id).child(outcome).leaf.value++
    const figures = this.#targets.child(provider.name).child(model.id).leaf
    if (durationMs !== null) figures.calls.observe(durationMs / 1_000)
  }

  /** Records the time to the first output of a stream. */
  recordFirstChunk({ provider, model }: NamedTarget, ms: number): void {
    this.#targets
      .child(provider.name)
      .child(model.id)
      .leaf.firstChunks.observe(ms / 1_000)
  }

  /** Counts what a request used and was charged. `discountPpm`: that on delayed work. */
  recordUsage(usage: ChargedUsage, discountPpm = 0): void {
    const { environment, kind, model, provider, cost, waiver } = usage
    // Without a provider nothing was used.
    if (environment === 'test' || provider === null) return
    if (usage.cached) {
      this.#cachedAnswers.child(model).leaf.value++
      return
    }
    const figures = this.#targets.child(provider).child(model).leaf
    if (cost > 0) {
      figures.spendNano += cost
      const factor = this.#factors[kind === 'embedding' ? 'embedding' : 'others']
      figures.providerNano += cost / (factor * (1 - discountPpm / 1e6))
    }
    if (waiver) this.#waived.child(waiver).leaf.value++
    if (usage.part === undefined) this.recordTokens(usage)
  }

  /** Counts the tokens of a request, or of a whole session. */
  recordTokens(usage: ChargedUsage): void {
    const { environment, model, provider } = usage
    if (environment === 'test' || provider === null) return
    const figures = this.#targets.child(provider).child(model).leaf
    figures.inputTokens += usage.promptTokens ?? 0
    figures.outputTokens += usage.completionTokens ?? 0
    figures.cacheReadTokens += usage.cachedTokens ?? 0
    figures.cacheWriteTokens += usage.cacheWriteTokens ?? 0
    figures.reasoningTokens += usage.reasoningTokens ?? 0
  }

  /** Counts what a provider stated that a call cost, and what it costs at the prices of the catalog. */
  recordStatedCost({ provider, model }: NamedTarget, listedNano: number, statedNano: number): void {
    const figures = this.#targets.child(provider.name).child(model.id).leaf
    figures.listedNano += listedNano
    figures.statedNano += statedNano
  }

  recordJobEnd(kind: string, status: string): void {
    this.#jobs.child(kind).child(status).leaf.value++
  }

  recordDelivery(outcome: string): void {
    this.#deliveries.child(outcome).leaf.value++
  }

  recordExport(stream: string, outcome: 'delivered' | 'failed', rows: number): void {
    this.#exportBatches.child(stream).child(outcome).leaf.value++
    this.#exportRows.child(stream).leaf.value += rows
  }

  /** Counts what a detector or the webhook of guardrails did. */
  recordGuard(side: string, guard: string, outcome: string, count: number): void {
    this.#guards.child(side).child(guard).child(outcome).leaf.value += count
  }

  recordScrapeError(store: string): void {
    this.#scrapeErrors.child(store).leaf.value++
  }

  /** Adds a metric whose values are read at each scrape. */
  add(definition: Definition, read: () => Value[] | Promise<Value[]>): void {
    addMetric(this.registry, definition, read)
  }

  /** Adds the metrics of the process and of Node.js. */
  addProcessMetrics(): void {
    addProcessMetrics(this.registry)
  }

  /** Adds a gauge without labels. */
  addGauge(definition: Definition, read: () => number): void {
    this.add(definition, () => [{ value: read(), labels: {} }])
  }

  /** The models that were called, with their providers. */
  *calledTargets(): Iterable<{ model: string; provider: string }> {
    for (const { labels } of this.#targets.entries()) yield labels as { model: string; provider: string }
  }

  /** The current values of all metrics. */
  values(): Promise<MetricValues[]> {
    return readValues(this.registry)
  }

  /** All metrics in the text format of Prometheus. */
  render(): Promise<string> {
    return renderMetrics(this.registry)
  }

  #addAll(): void {
    const {
      requests,
      requestSeconds,
      overheadSeconds,
      calls,
      waived,
      jobsFinished,
      deliveries,
      exportBatches,
      exportRows,
    } = definitions
    const counts: [Definition, SeriesTree<Count>][] = [
      [requests, this.#requests],
      [calls, this.#calls],
      [waived, this.#waived],
      [definitions.cachedAnswers, this.#cachedAnswers],
      [definitions.guards, this.#guards],
      [jobsFinished, this.#jobs],
      [deliveries, this.#deliveries],
      [exportBatches, this.#exportBatches],
      [exportRows, this.#exportRows],
      [definitions.scrapeErrors, this.#scrapeErrors],
    ]
    for (const [definition, series] of counts) this.add(definition, () => countValues(series))
    const unknown = countUnknown()
    this.add(definitions.unknownNames, () => unknownKinds.map(kind => ({ labels: { kind }, value: unknown[kind] })))
    this.add(requestSeconds, () => histogramValues(requestSeconds.name, this.#durations.entries()))
    this.add(overheadSeconds, () => histogramValues(overheadSeconds.name, this.#overheads.entries()))
    this.#addHistogram(definitions.callSeconds, ({ calls }) => calls)
    this.#addHistogram(definitions.firstChunkSeconds, ({ firstChunks }) => firstChunks)
    for (const field of tokenFields) this.add(definitions[field], () => this.#tokenValues(field))
    this.add(definitions.spendUsd, () => this.#usdValues(({ spendNano }) => spendNano))
    this.add(definitions.providerCostUsd, () => this.#usdValues(({ providerNano }) => providerNano))
    this.add(definitions.statedCostUsd, () => this.#usdValues(({ statedNano }) => statedNano))
    this.add(definitions.listedCostUsd, () => this.#usdValues(({ listedNano }) => listedNano))
  }

  /** Adds a histogram of the targets; those without observations are left out. */
  #addHistogram(definition: Definition, histogramOf: (figures: TargetFigures) => Histogram): void {
    this.add(definition, () => {
      const series = Array.from(this.#targets.entries(), ({ labels, leaf }) => {
        return { labels: this.#genAiLabels(labels), leaf: histogramOf(leaf) }
      })
      return histogramValues(
        definition.name,
        series.filter(({ leaf }) => leaf.counts.some(count => count > 0)),
      )
    })
  }

  #tokenValues(field: (typeof tokenFields)[number]): Value[] {
    const values = Array.from(this.#targets.entries(), ({ labels, leaf }) => {
      return { labels: this.#genAiLabels(labels), value: leaf[field] }
    })
    return values.filter(({ value }) => value > 0)
  }

  #usdValues(nanoOf: (figures: TargetFigures) => number): Value[] {
    const values = Array.from(this.#targets.entries(), ({ labels, leaf }) => ({ labels, value: nanoOf(leaf) / 1e9 }))
    return values.filter(({ value }) => value > 0)
  }

  #genAiLabels({ model = '', provider = '' }: Record<string, string>): Record<string, string> {
    return {
      // The types of models are the conventions' names of operations, or names of ours where these have none.
      gen_ai_operation_name: this.#catalog.models.get(model)?.type ?? '',
      gen_ai_provider_name: provider,
      gen_ai_request_model: model,
    }
  }
}

function factorOf(marginPpm: bigint): number {
  return 1 + Number(marginPpm) / 1e6
}
