import { Anchor, Group, Select, Stack, Switch, Table, Text, TextInput } from '@mantine/core'
import { IconSearch } from '@tabler/icons-react'
import { useMemo } from 'react'
import { Link, useSearchParams } from 'wouter'
import type { CatalogModel } from '../../../wire/models.ts'
import { mainPrice, typeNames } from '../../catalog.ts'
import { Page } from '../../components/page.tsx'
import { Empty } from '../../components/states.tsx'
import { shortCount } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { Availability, bestStatus } from './availability.tsx'

export function ModelList({ models }: { models: CatalogModel[] }) {
  const [search, setSearch] = useSearchParams()
  const [query, type, live] = [search.get('q') ?? '', search.get('type'), search.get('available') === 'true']
  const filter = (name: string, value: string) =>
    setSearch(
      before => {
        const next = new URLSearchParams(before)
        if (value === '') next.delete(name)
        else next.set(name, value)
        return next
      },
      { replace: true },
    )
  const shown = useMemo(() => matching(models, query, type, live), [models, query, type, live])
  const types = Object.entries(typeNames).filter(([name]) => models.some(model => model.type === name))
  return (
    <Page
      title="Models"
      description="What can be called here, by whom it is served, and what it costs, the service’s margin included."
    >
      <Group gap="sm" align="flex-end">
        <TextInput
          label="Search"
          placeholder="Name, slug, maker or provider"
          leftSection={<IconSearch size={16} aria-hidden />}
          style={{ flex: '1 1 220px' }}
          value={query}
          onChange={event => filter('q', event.currentTarget.value)}
        />
        <Select
          label="Type"
          placeholder="Every type"
          clearable
          w={180}
          data={types.map(([value, label]) => ({ value, label }))}
          value={type}
          onChange={chosen => filter('type', chosen ?? '')}
        />
        <Switch
          label="Available to live keys"
          mb={8}
          checked={live}
          onChange={event => filter('available', event.currentTarget.checked ? 'true' : '')}
        />
      </Group>
      <Text size="xs" c="dimmed" role="status">
        {shown.length === models.length ? `${models.length} models` : `${shown.length} of ${models.length} models`}
      </Text>
      {shown.length === 0 ? (
        <Empty title="No model matches">
          {live
            ? 'Live keys reach models whose provider the operator has configured; test keys reach all.'
            : 'Search for less.'}
        </Empty>
      ) : (
        <Rows models={shown} />
      )}
    </Page>
  )
}

function matching(models: CatalogModel[], query: string, type: string | null, live: boolean): CatalogModel[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean)
  const found = models.filter(model => {
    if ((type !== null && model.type !== type) || (live && !model.available)) return false
    const { id, name, owned_by, providers } = model
    const text = [id, name, owned_by, ...providers.map(provider => provider.name)].join(' ').toLowerCase()
    return words.every(word => text.includes(word))
  })
  const types = Object.keys(typeNames)
  return found.sort((a, b) => types.indexOf(a.type) - types.indexOf(b.type))
}

function Rows({ models }: { models: CatalogModel[] }) {
  return (
    <Table.ScrollContainer minWidth={860}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Model</Table.Th>
            <Table.Th>Type</Table.Th>
            <Table.Th>Price</Table.Th>
            <Table.Th ta="right">Context</Table.Th>
            <Table.Th>Takes → gives</Table.Th>
            <Table.Th>Providers</Table.Th>
            <Table.Th>Live keys</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {models.map(model => (
            <Row key={model.id} model={model} />
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  )
}

function Row({ model }: { model: CatalogModel }) {
  const { home } = usePlace()
  const main = mainPrice(model)
  const { id, name, type, context_length, input_modalities, output_modalities, providers } = model
  return (
    <Table.Tr>
      <Table.Td>
        <Stack gap={0}>
          <Anchor component={Link} href={`${home}/models/${id}`} size="sm" fw={500}>
            {name}
          </Anchor>
          <Text size="xs" c="dimmed" ff="monospace">
            {id}
          </Text>
        </Stack>
      </Table.Td>
      <Table.Td>{typeNames[type] ?? type}</Table.Td>
      <Table.Td className="numeric">
        <Stack gap={0}>
          <Text size="sm" style={{ whiteSpace: 'nowrap' }}>
            {main?.price}
          </Text>
          {main && (
            <Text size="xs" c="dimmed">
              per {main.unit}
            </Text>
          )}
        </Stack>
      </Table.Td>
      <Table.Td className="numeric" ta="right">
        {context_length === null ? '–' : shortCount(context_length)}
      </Table.Td>
      <Table.Td>
        <Text size="xs">
          {input_modalities.join(', ')} → {output_modalities.join(', ')}
        </Text>
      </Table.Td>
      <Table.Td>
        <Text size="xs">{providers.map(provider => provider.name).join(', ')}</Text>
      </Table.Td>
      <Table.Td>
        <Availability status={bestStatus(model)} />
      </Table.Td>
    </Table.Tr>
  )
}
