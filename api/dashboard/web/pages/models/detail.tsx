import { Anchor, Breadcrumbs, Button, Group, Paper, SimpleGrid, Stack, Table, Text, Title } from '@mantine/core'
import { IconPlayerPlay } from '@tabler/icons-react'
import { Link } from 'wouter'
import type { CatalogModel, ModelProvider } from '../../../wire/models.ts'
import { type PriceLine, playgroundOf, priceLines, typeNames } from '../../catalog.ts'
import { CodeBox, Copy } from '../../components/copy.tsx'
import { Page } from '../../components/page.tsx'
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
        <Anchor component={Link} href={`${home}/models`} size="sm">
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
  const { context_length, max_output_tokens, supported_parameters, quality, expires_on } = model
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
    ['Maker', model.owned_by],
    ['Takes', model.input_modalities.join(', ')],
    ['Gives', model.output_modalities.join(', ')],
    ['Context', context_length && `${count(context_length)} tokens`],
    ['Longest answer', max_output_tokens && `${count(max_output_tokens)} tokens`],
    ['Quality', quality !== null && `${quality} of 100 among models of its type`],
    ['Parameters', supported_parameters.join(', ')],
    ...Object.entries(model.kind).map(([name, value]): [string, string] => [wordsOf(name), textOf(value)]),
    ['Withdrawn on', expires_on && day(expires_on)],
  ]
  return (
    <Section title="Facts">
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
    <Section title="Call it">
      <CodeBox code={exampleOf(model)} label="curl example" />
      <Text size="xs" c="dimmed" mt="xs">
        With one of your keys in HEADGATE_API_KEY. A test key answers from the sandbox and costs nothing.
      </Text>
    </Section>
  )
}

function Prices({ provider: { name, status, pricing, above } }: { provider: ModelProvider }) {
  return (
    <div>
      <Group gap="xs" mb={4}>
        <Title order={3}>{name}</Title>
        <Availability status={status} />
      </Group>
      <PriceTable lines={priceLines(pricing)} caption={`Prices at ${name}`} />
      {above && (
        <>
          <Text size="sm" mt="sm" mb={4}>
            For the whole call, once its prompt is longer than {count(above.tokens)} tokens:
          </Text>
          <PriceTable lines={priceLines(above.pricing)} caption={`Prices of long prompts at ${name}`} />
        </>
      )}
    </div>
  )
}

function PriceTable({ lines, caption }: { lines: PriceLine[]; caption: string }) {
  return (
    <Table maw={480} verticalSpacing={4} aria-label={caption}>
      <Table.Thead className="visually-hidden">
        <Table.Tr>
          <Table.Th>What</Table.Th>
          <Table.Th>Price</Table.Th>
          <Table.Th>Per</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {lines.map(({ label, price, unit }) => (
          <Table.Tr key={label}>
            <Table.Td>{label}</Table.Td>
            <Table.Td ta="right" className="numeric">
              {price}
            </Table.Td>
            <Table.Td>per {unit}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  )
}
