import { Anchor, Breadcrumbs, Button, Group, Paper, SimpleGrid, Stack, Table, Text, Title } from '@mantine/core'
import { IconPlayerPlay } from '@tabler/icons-react'
import { Link } from 'wouter'
import type { CatalogModel, ModelProvider } from '../../../wire/models.ts'
import { type PriceLine, playgroundOf, priceLines, typeNames } from '../../catalog.ts'
import { CodeBox, Copy } from '../../components/copy.tsx'
import { listAddress } from '../../components/list-address.ts'
import { Page } from '../../components/page.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { count, day } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { Availability } from './availability.tsx'
import { exampleOf } from './example.ts'

export function ModelDetail({ model }: { model: CatalogModel }) {
  const { home } = usePlace()
  const tab = playgroundOf(model)
  return (
    <Stack gap="sm">
      <Breadcrumbs>
        <Anchor component={Link} href={listAddress(`${home}/models`)} size="sm">
          Models
        </Anchor>
        <Text size="sm">{model.name}</Text>
      </Breadcrumbs>
      <Page
        title={model.name}
        description={model.description}
        actions={
          tab && (
            <Button
              component={Link}
              href={`${home}/playground/${tab}?model=${encodeURIComponent(model.id)}`}
              leftSection={<IconPlayerPlay size={16} aria-hidden />}
            >
              Try it
            </Button>
          )
        }
      >
        <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
          <Facts model={model} />
          <Example model={model} />
        </SimpleGrid>
        <Section title="Providers and prices">
          <Stack gap="lg">
            {model.providers.map(provider => (
              <Prices key={provider.name} provider={provider} />
            ))}
          </Stack>
        </Section>
      </Page>
    </Stack>
  )
}

function Section({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <Paper withBorder p="md" style={{ minWidth: 0 }}>
      <Title order={2} mb="sm">
        {title}
      </Title>
      {children}
    </Paper>
  )
}

function Facts({ model }: { model: CatalogModel }) {
  const { context_length, max_output_tokens, supported_parameters, quality, task_qualities, expires_on } = model
  const facts: [string, React.ReactNode][] = [
    [
      'Slug',
      <Group key="slug" gap={4} wrap="nowrap">
        <Text size="sm" ff="monospace" style={{ overflowWrap: 'anywhere' }}>
          {model.id}
        </Text>
        <Copy value={model.id} label="slug" />
      </Group>,
    ],
    ['Type', typeNames[model.type] ?? model.type],
    ['Route', model.endpoint],
    ['Developer', model.owned_by],
    ['Input', model.input_modalities.join(', ')],
    ['Output', model.output_modalities.join(', ')],
    ['Context', context_length && `${count(context_length)} tokens`],
    ['Max output tokens', max_output_tokens && `${count(max_output_tokens)} tokens`],
    ['Quality', quality !== null && `${quality} of 100, among models of its type`],
    [
      'Quality by task',
      Object.entries(task_qualities)
        .map(([task, value]) => `${wordsOf(task)} ${value}`)
        .join(', '),
    ],
    ['Parameters', supported_parameters.join(', ')],
    ...Object.entries(model.kind).map(([name, value]): [string, string] => [wordsOf(name), textOf(value)]),
    ['Retires on', expires_on && day(expires_on)],
  ]
  return (
    <Section title="Details">
      <Table variant="vertical" layout="fixed" highlightOnHover={false}>
        <Table.Tbody>
          {facts
            .filter(([, value]) => value)
            .map(([name, value]) => (
              <Table.Tr key={name}>
                <Table.Th w={140}>{name}</Table.Th>
                <Table.Td style={{ overflowWrap: 'anywhere' }}>{value}</Table.Td>
              </Table.Tr>
            ))}
        </Table.Tbody>
      </Table>
    </Section>
  )
}

function wordsOf(name: string): string {
  const words = name.replaceAll('_', ' ')
  return words[0]!.toUpperCase() + words.slice(1)
}

function textOf(value: unknown): string {
  if (Array.isArray(value)) return value.join(', ')
  return typeof value === 'boolean' ? (value ? 'yes' : 'no') : String(value)
}

function Example({ model }: { model: CatalogModel }) {
  return (
    <Section title="Example">
      <CodeBox code={exampleOf(model)} label="curl example" />
      <Text size="xs" c="dimmed" mt="xs">
        Set HEADGATE_API_KEY to one of your API keys. Test keys use the sandbox and are free.
      </Text>
    </Section>
  )
}

/** What is known of how a provider treats requests, and of the weights that it serves. */
function termsOf({ data_collection, zdr, quantization }: ModelProvider): string {
  const terms = [
    data_collection === false && 'does not train on requests',
    data_collection === true && 'may keep or train on requests',
    zdr === true && 'zero data retention',
    quantization && `${quantization} weights`,
  ]
  return terms.filter(Boolean).join(' · ')
}

function Prices({ provider }: { provider: ModelProvider }) {
  const { name, status, pricing, above } = provider
  const terms = termsOf(provider)
  return (
    <div>
      <Group gap="xs" mb={4}>
        <Title order={3}>{name}</Title>
        <Availability status={status} />
      </Group>
      {terms && (
        <Text size="sm" c="dimmed" mb={4}>
          {terms}
        </Text>
      )}
      <PriceTable lines={priceLines(pricing)} label={`Prices at ${name}`} />
      {above && (
        <>
          <Text size="sm" mt="sm" mb={4}>
            For the entire request when its prompt exceeds {count(above.tokens)} tokens:
          </Text>
          <PriceTable lines={priceLines(above.pricing)} label={`Prices of long prompts at ${name}`} />
        </>
      )}
    </div>
  )
}

const priceColumns: Column<PriceLine>[] = [
  { header: 'What', kind: 'rowHeader', cell: ({ label }) => label },
  { header: 'Price', kind: 'number', cell: ({ price }) => price },
  { header: 'Per', cell: ({ unit }) => `per ${unit}` },
]

function PriceTable({ lines, label }: { lines: PriceLine[]; label: string }) {
  return (
    <DataTable
      label={label}
      rows={lines}
      columns={priceColumns}
      rowKey={line => line.label}
      maxWidth={480}
      dense
      hiddenHeader
    />
  )
}
