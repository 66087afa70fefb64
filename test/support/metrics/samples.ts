import { eventually, type Gateway } from '../gateway.ts'

export type Sample = { name: string; labels: Record<string, string>; value: number }

/** The samples of a text in Prometheus' format. Throws for a line that is not in it. */
export function samplesOf(text: string): Sample[] {
  return text.split('\n').flatMap(line => {
    if (line === '' || line.startsWith('# HELP ') || line.startsWith('# TYPE ')) return []
    const [, name, labels = '', value] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line) ?? []
    if (name === undefined) throw new Error(`not a sample: ${line}`)
    const pairs = [...labels.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)",?/g)].map(([, key, text]) => [key, text])
    return [{ name, labels: Object.fromEntries(pairs), value: Number(value) }]
  })
}

/** The sum of the samples of a name that have these labels. */
export function total(samples: readonly Sample[], name: string, labels: Record<string, string> = {}): number {
  const matching = samples.filter(sample => {
    return sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value)
  })
  return matching.reduce((sum, { value }) => sum + value, 0)
}

/** The names of the metrics of a text, with their types. */
export function typesOf(text: string): Map<string, string> {
  return new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, type]) => [name!, type!]))
}

/** The metrics of a gateway in this process; its METRICS_PORT is set, but not opened. */
export const measured = { METRICS_PORT: '9464' }

export async function scrape({ services }: Pick<Gateway, 'services'>): Promise<Sample[]> {
  return samplesOf(await services.metrics!.render())
}

/** How much samples have grown since this was called. */
export async function growth(gateway: Pick<Gateway, 'services'>) {
  const before = await scrape(gateway)
  return async (name: string, labels: Record<string, string> = {}): Promise<number> => {
    return total(await scrape(gateway), name, labels) - total(before, name, labels)
  }
}

type Growth = Awaited<ReturnType<typeof growth>>

/** Waits until samples have grown by an amount: a request is counted after its response. */
export function grown(by: Growth, amount: number, name: string, labels: Record<string, string> = {}): Promise<void> {
  return eventually(async () => (await by(name, labels)) === amount, `${name} has grown by ${amount}`)
}
