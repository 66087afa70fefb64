import { Table, Text } from '@mantine/core'
import type { CostPart, RequestDetail } from '../../../wire/requests.ts'
import { Section } from '../../components/facts.tsx'
import { count, usd } from '../../format.ts'

const partNames: Record<CostPart['part'], string> = {
  input: 'Input',
  cached_input: 'Cached input',
  output: 'Output',
  margin: 'Service margin',
}

/** What was used, and what each class of tokens cost. */
export function Cost({ request }: { request: RequestDetail }) {
  const { usage, cost_usd: cost, cost_parts: parts } = request
  const { prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens, estimated } = usage
  return (
    <Section title="Usage and cost">
      <Table aria-label="Cost by class of tokens">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Class</Table.Th>
            <Table.Th ta="right">Tokens</Table.Th>
            <Table.Th ta="right">Per million</Table.Th>
            <Table.Th ta="right">Cost</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {parts
            ? parts.map(part => <PartRow key={part.part} part={part} />)
            : [
                <TokenRow key="input" name="Input" tokens={prompt_tokens} />,
                <TokenRow key="output" name="Output" tokens={completion_tokens} />,
              ]}
        </Table.Tbody>
        <Table.Tfoot>
          <Table.Tr>
            <Table.Th>Charged</Table.Th>
            <Table.Td ta="right" className="numeric">
              {count(prompt_tokens + completion_tokens)}
            </Table.Td>
            <Table.Td />
            <Table.Td ta="right" className="numeric" fw={600}>
              {usd(cost)}
            </Table.Td>
          </Table.Tr>
        </Table.Tfoot>
      </Table>
      <Text size="xs" c="dimmed" mt="xs">
        {[
          cached_tokens > 0 && `${count(cached_tokens)} of the input came from the provider’s cache.`,
          reasoning_tokens > 0 && `${count(reasoning_tokens)} of the output were spent on reasoning.`,
          estimated && 'The provider gave no usage: the gateway counted.',
          !parts && cost > 0 && 'It was charged at the prices of its time, or by other units than these tokens.',
        ]
          .filter(Boolean)
          .join(' ')}
      </Text>
    </Section>
  )
}

function PartRow({ part: { part, tokens, usd_per_million: price, cost_usd: cost } }: { part: CostPart }) {
  return (
    <Table.Tr>
      <Table.Td>{part === 'margin' && cost < 0 ? 'Discount, less the margin' : partNames[part]}</Table.Td>
      <Table.Td ta="right" className="numeric">
        {tokens === null ? '' : count(tokens)}
      </Table.Td>
      <Table.Td ta="right" className="numeric">
        {price === null ? '' : usd(price)}
      </Table.Td>
      <Table.Td ta="right" className="numeric">
        {usd(cost)}
      </Table.Td>
    </Table.Tr>
  )
}

function TokenRow({ name, tokens }: { name: string; tokens: number }) {
  return (
    <Table.Tr>
      <Table.Td>{name}</Table.Td>
      <Table.Td ta="right" className="numeric">
        {count(tokens)}
      </Table.Td>
      <Table.Td />
      <Table.Td />
    </Table.Tr>
  )
}
