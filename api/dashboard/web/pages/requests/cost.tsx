import { Text } from '@mantine/core'
import type { CostPart, RequestDetail } from '../../../wire/requests.ts'
import { Section } from '../../components/facts.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { count, exactUsd, percent } from '../../format.ts'

const partNames: Record<CostPart['part'], string> = {
  input: 'Input',
  cached_input: 'Cached input',
  cache_write: 'Cache write',
  cache_write_1h: 'Cache write, 1 hour',
  output: 'Output',
  web_search: 'Web searches',
  margin: 'Service margin',
}

/** The usage, and the cost of each token class. */
export function Cost({ request }: { request: RequestDetail }) {
  const { usage, cost_usd: cost, cost_parts: parts, cache_discount_usd: saved } = request
  const { prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, estimated } = usage
  const { service_tier: tier } = usage
  return (
    <Section title="Usage and cost">
      <DataTable
        label="Cost by token class"
        rows={parts?.map(lineOf) ?? [tokenLine('Input', prompt_tokens), tokenLine('Output', completion_tokens)]}
        columns={columns(prompt_tokens + completion_tokens, cost)}
        rowKey={({ name }) => name}
      />
      <Text size="xs" c="dimmed" mt="xs">
        {[
          cached_tokens > 0 &&
            `${count(cached_tokens)} of the input (${percent(cached_tokens / prompt_tokens)}) were read from the provider’s cache.`,
          cache_write_tokens > 0 && `${count(cache_write_tokens)} of the input were written to it.`,
          saved > 0 && `The cache saved ${exactUsd(saved)}.`,
          saved < 0 && `Writing to it cost ${exactUsd(-saved)} more than reading saved.`,
          reasoning_tokens > 0 && `${count(reasoning_tokens)} of the output were spent on reasoning.`,
          tier !== 'standard' && `The prices are those of the service tier ${tier}.`,
          estimated && 'The provider reported no usage, so the gateway estimated it.',
          !parts && cost > 0 && 'The request was charged at earlier prices, or by units other than these tokens.',
        ]
          .filter(Boolean)
          .join(' ')}
      </Text>
    </Section>
  )
}

type CostLine = { name: string; tokens: string; price: string; cost: string }

function lineOf({ part, tokens, usd_per_million: price, cost_usd: cost }: CostPart): CostLine {
  return {
    name: part === 'margin' && cost < 0 ? 'Discount, minus the margin' : partNames[part],
    tokens: tokens === null ? '' : count(tokens),
    price: price === null ? '' : exactUsd(price),
    cost: exactUsd(cost),
  }
}

function tokenLine(name: string, tokens: number): CostLine {
  return { name, tokens: count(tokens), price: '', cost: '' }
}

const columns = (tokens: number, cost: number): Column<CostLine>[] => [
  { header: 'Class', kind: 'rowHeader', cell: ({ name }) => name, footer: 'Charged' },
  { header: 'Tokens', kind: 'number', cell: line => line.tokens, footer: count(tokens) },
  { header: 'Per million', kind: 'number', cell: ({ price }) => price },
  { header: 'Cost', kind: 'number', cell: line => line.cost, footer: exactUsd(cost) },
]
