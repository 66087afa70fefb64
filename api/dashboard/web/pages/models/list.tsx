import { Anchor, Group, Select, Switch, Text, TextInput } from '@mantine/core'
import { IconSearch } from '@tabler/icons-react'
import { useMemo } from 'react'
import { Link, useSearchParams } from 'wouter'
import type { CatalogModel } from '../../../wire/models.ts'
import { mainPrice, typeNames } from '../../catalog.ts'
import { Page } from '../../components/page.tsx'
import { Empty } from '../../components/states.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { shortCount } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { Availability, bestStatus } from './availability.tsx'

export function ModelList({ models }: { models: CatalogModel[] }) {
  const { home } = usePlace()
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
      description="Available models with their providers and prices. Prices include the service’s margin."
    >
      <Group gap="sm" align="flex-end">
        <TextInput
          label="Search"
          placeholder="Name, slug, developer or provider"
          leftSection={<IconSearch size={16} aria-hidden />}
          style={{ flex: '1 1 220px' }}
          value={query}
          onChange={event => filter('q', event.currentTarget.value)}
        />
        <Select
          label="Type"
          placeholder="All types"
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
      <DataTable
        label="Models"
        rows={shown}
        columns={columns(home)}
        rowKey={({ id }) => id}
        minWidth={860}
        empty={
          <Empty title="No models found">
            {live
              ? 'Live keys can use models whose provider is configured. Test keys can use all models.'
              : 'Change the filters to see other models.'}
          </Empty>
        }
      />
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

const columns = (home: string): Column<CatalogModel>[] => [
  {
    header: 'Model',
    kind: 'rowHeader',
    cell: ({ id, name }) => (
      <>
        <Anchor component={Link} href={`${home}/models/${id}`} size="sm" fw={500}>
          {name}
        </Anchor>
        <Text size="xs" c="dimmed" ff="monospace">
          {id}
        </Text>
      </>
    ),
  },
  { header: 'Type', cell: ({ type }) => typeNames[type] ?? type },
  { header: 'Price', cell: model => <Price model={model} /> },
  {
    header: 'Context',
    kind: 'number',
    cell: ({ context_length: tokens }) => (tokens === null ? '–' : shortCount(tokens)),
  },
  {
    header: 'Input → output',
    cell: ({ input_modalities, output_modalities }) => (
      <Text size="xs">
        {input_modalities.join(', ')} → {output_modalities.join(', ')}
      </Text>
    ),
  },
  {
    header: 'Providers',
    cell: ({ providers }) => <Text size="xs">{providers.map(({ name }) => name).join(', ')}</Text>,
  },
  { header: 'Live keys', cell: model => <Availability status={bestStatus(model)} /> },
]

function Price({ model }: { model: CatalogModel }) {
  const main = mainPrice(model)
  if (!main) return null
  return (
    <div className="numeric">
      <Text size="sm" style={{ whiteSpace: 'nowrap' }}>
        {main.price}
      </Text>
      <Text size="xs" c="dimmed">
        per {main.unit}
      </Text>
    </div>
  )
}
