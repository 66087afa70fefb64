import { setImmediate } from 'node:timers/promises'
import { AggregatorRegistry, collectDefaultMetrics, type Metric, type Registry } from 'prom-client'
import type { Definition } from './definitions.ts'
import type { Count, Histogram, SeriesTree } from './series.ts'

type Labels = Record<string, string | number>

/** One value of a metric. */
export type Value = {
  value: number
  labels: Labels
  /** Further labels, which several values share: their text is built once. */
  sharedLabels?: Labels
  /** The name of a histogram's part. */
  metricName?: string
}

/** The values of one metric at one moment; can be sent to another process. */
export type MetricValues = Definition & { values: Value[] }

/** Metrics of the runtime that are expensive to read with thousands of connections. */
const expensive = [
  'nodejs_active_resources',
  'nodejs_active_resources_total',
  'nodejs_active_handles',
  'nodejs_active_handles_total',
  'nodejs_active_requests',
  'nodejs_active_requests_total',
]

/**
 * Adds a metric whose values are read at each scrape. The metrics of prom-client look up their labels at every change,
 * which costs more than the rest of a request's metrics; a registry only needs the name, `get`, and for the text
 * `getForPromString`.
 */
export function addMetric(registry: Registry, definition: Definition, read: () => Value[] | Promise<Value[]>): void {
  const getForPromString = async (): Promise<MetricValues> => {
    return { aggregator: 'sum', ...definition, values: await read() }
  }
  const get = async (): Promise<MetricValues> => {
    const metric = await getForPromString()
    return { ...metric, values: metric.values.map(withAllLabels) }
  }
  registry.registerMetric({ ...definition, get, getForPromString } as unknown as Metric)
}

function withAllLabels({ labels, sharedLabels, ...rest }: Value): Value {
  return { ...rest, labels: { ...sharedLabels, ...labels } }
}

/** All metrics in the text format of Prometheus. Lets other work run between two of them, as one may have many series. */
export async function renderMetrics(registry: Registry): Promise<string> {
  const parts: string[] = []
  for (const { name } of registry.getMetricsAsArray()) {
    parts.push(await registry.getSingleMetricAsString(name))
    await setImmediate()
  }
  return `${parts.join('\n\n')}\n`
}

/** Adds the metrics of the process and of Node.js. */
export function addProcessMetrics(registry: Registry): void {
  collectDefaultMetrics({ register: registry })
  for (const name of expensive) registry.removeSingleMetric(name)
}

/** The current values of all metrics. */
export async function readValues(registry: Registry): Promise<MetricValues[]> {
  const metrics = (await registry.getMetricsAsJSON()) as unknown as MetricValues[]
  // An average over the processes would hide the one that is blocked.
  return metrics.map(metric =>
    metric.name.startsWith('nodejs_eventloop_lag') ? { ...metric, aggregator: 'max' } : metric,
  )
}

/** Combines the values of several processes. */
export function combine(processes: readonly (readonly MetricValues[])[]): Registry {
  return AggregatorRegistry.aggregate(processes as unknown as object[])
}

export function countValues(series: SeriesTree<Count>): Value[] {
  return Array.from(series.entries(), ({ labels, leaf }) => ({ labels, value: leaf.value }))
}

/** The cumulative buckets, the sum and the count of each histogram. */
export function histogramValues(
  name: string,
  histograms: Iterable<{ labels: Record<string, string>; leaf: Histogram }>,
): Value[] {
  const values: Value[] = []
  for (const { labels, leaf } of histograms) {
    let count = 0
    for (const [i, bound] of [...leaf.bounds, '+Inf'].entries()) {
      count += leaf.counts[i]!
      values.push({ metricName: `${name}_bucket`, labels: { le: bound }, sharedLabels: labels, value: count })
    }
    values.push(
      { metricName: `${name}_sum`, labels: {}, sharedLabels: labels, value: leaf.sum },
      { metricName: `${name}_count`, labels: {}, sharedLabels: labels, value: count },
    )
  }
  return values
}
