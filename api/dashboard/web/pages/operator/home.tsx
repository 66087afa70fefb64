import { Alert, Anchor, Group, SegmentedControl, SimpleGrid, Stack, Text } from '@mantine/core'
import { IconAlertTriangle, IconCircleCheck } from '@tabler/icons-react'
import { Link } from 'wouter'
import type { ServiceActivity, ServiceSums, SystemAnswer, TopOrganisations } from '../../../wire/operator-home.ts'
import { queryText } from '../../api.ts'
import { Facts, Section } from '../../components/facts.tsx'
import { useFilter } from '../../components/filters.tsx'
import { SpanPicker, type TimeQuery, useTime } from '../../components/span.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { Together } from '../../components/together.tsx'
import { ago, count, moment, percent, shortCount, usd } from '../../format.ts'
import { ActivityCharts } from '../overview/health.tsx'
import { Change, QualityTiles, Tile, timeBefore } from '../overview/tiles.tsx'
import { useServiceActivity, useSystem, useTopOrganisations } from './home-queries.ts'
import { Incidents } from './incidents.tsx'
import { UnknownNames } from './unknown-names.tsx'

/** Whether all is well with the service, and what it earns. */
export function Home() {
  const [time, setTime] = useTime('24h')
  const activity = useServiceActivity(time)
  const system = useSystem()
  return (
    <Stack>
      <Group justify="flex-end">
        <SpanPicker time={time} onChange={setTime} />
      </Group>
      <Together gap="md">
        {system.data && <Verdict system={system.data} />}
        <Show query={activity} rows={4}>
          {data => (
            <>
              <ServiceTiles activity={data} />
              {data.total.requests > 0 && <ActivityCharts activity={data} />}
            </>
          )}
        </Show>
        <Incidents />
        <UnknownNames />
        <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
          <Top time={time} />
          <Show query={system} rows={4}>
            {data => <System system={data} />}
          </Show>
        </SimpleGrid>
      </Together>
    </Stack>
  )
}

/** Whether anything is wrong now. */
function Verdict({
  system: { faults, open_incidents: open, first_incident: first, pending_migrations: pending },
}: {
  system: SystemAnswer
}) {
  const problems = [
    faults.includes('no_worker') && 'No worker is running: nothing is booked and no job runs.',
    faults.includes('migrations_pending') &&
      `${pending.length === 1 ? 'A database migration is' : `${pending.length} database migrations are`} pending: run npm run migrate.`,
  ].filter(problem => problem !== false)
  const isWell = problems.length === 0 && open === 0
  return (
    <Alert
      role="status"
      color={isWell ? 'green' : faults.length > 0 ? 'red' : 'yellow'}
      variant="light"
      icon={isWell ? <IconCircleCheck aria-hidden /> : <IconAlertTriangle aria-hidden />}
      title={isWell ? 'Nothing is wrong now' : problems.join(' ') || undefined}
    >
      {first && (
        <Anchor
          component={Link}
          href={open === 1 ? `/operator/incidents/${first.id}` : '#incidents'}
          size="sm"
          fw={600}
          c="inherit"
          underline="always"
        >
          {open === 1
            ? `${first.title}, since ${moment(first.opened_at)}`
            : `${count(open)} incidents are ongoing, the first since ${moment(first.opened_at)}: ${first.title}`}
        </Anchor>
      )}
    </Alert>
  )
}

function ServiceTiles({ activity }: { activity: ServiceActivity }) {
  const { values, total, before, step_ms: stepMs, from, to } = activity
  const course = (of: (sums: ServiceSums) => number | null) => values.map(sums => sums && of(sums))
  const seconds = (Date.parse(to) - Date.parse(from)) / 1_000
  return (
    <SimpleGrid cols={{ base: 2, md: 3, xl: 6 }} spacing="md">
      <MoneyTile activity={activity} />
      <Tile
        label="Requests per second"
        value={rate(total.requests / seconds)}
        course={course(({ requests }) => (requests * 1_000) / stepMs)}
      >
        {count(total.requests)} requests
        <Change than={timeBefore(activity)} now={total.requests} before={before.requests} />
      </Tile>
      <QualityTiles activity={activity} />
    </SimpleGrid>
  )
}

/** Revenue, and what of it is the providers’. */
function MoneyTile({ activity }: { activity: ServiceActivity }) {
  const { values, total, before } = activity
  const { cost_usd: revenue, provider_cost_usd: cost, known_cost_usd: known } = total
  const margin = known - cost
  return (
    <Tile label="Revenue" value={usd(revenue)} course={values.map(sums => sums?.cost_usd ?? null)}>
      {known > 0 && (
        <>
          {usd(cost)} to providers
          <div>
            {usd(margin)} margin ({percent(margin / known)})
          </div>
          {known < revenue && <div>known for {percent(known / revenue)} of it</div>}
        </>
      )}
      <Change than={timeBefore(activity)} now={revenue} before={before.cost_usd} />
    </Tile>
  )
}

function rate(perSecond: number): string {
  return perSecond >= 10 ? shortCount(perSecond) : perSecond.toPrecision(2)
}

type TopRow = TopOrganisations['data'][number]

const topColumns = (time: TimeQuery): Column<TopRow>[] => [
  {
    header: 'Organisation',
    kind: 'rowHeader',
    maxWidth: 240,
    cell: ({ id, name }) => (
      <Anchor component={Link} href={`/operator/organisations/${id}`} size="sm">
        {name}
      </Anchor>
    ),
  },
  { header: 'Spend', kind: 'number', cell: ({ cost_usd }) => usd(cost_usd) },
  { header: 'Requests', kind: 'number', cell: ({ requests }) => count(requests) },
  {
    header: 'Errors',
    kind: 'number',
    cell: ({ id, name, errors }) =>
      errors === 0 ? (
        '0'
      ) : (
        <Anchor
          component={Link}
          href={`/operator/organisations/${id}/requests${queryText({ status: 'error', ...time })}`}
          size="sm"
          aria-label={`${count(errors)} errors of ${name}`}
        >
          {count(errors)}
        </Anchor>
      ),
  },
]

function Top({ time }: { time: TimeQuery }) {
  const [by, setBy] = useFilter('top')
  const top = useTopOrganisations({ ...time, by: by || 'cost' })
  return (
    <Section title="Top organisations">
      <Stack gap="xs" align="flex-start">
        <SegmentedControl
          size="xs"
          aria-label="Order by"
          data={[
            { value: '', label: 'By spend' },
            { value: 'errors', label: 'By errors' },
          ]}
          value={by}
          onChange={setBy}
        />
        <Show query={top} rows={3}>
          {({ data }) => (
            <DataTable
              label="Top organisations"
              rows={data}
              columns={topColumns(time)}
              rowKey={({ id }) => id}
              empty={<Empty title={by === 'errors' ? 'No errors in this period' : 'No requests in this period'} />}
            />
          )}
        </Show>
      </Stack>
    </Section>
  )
}

function System({ system }: { system: SystemAnswer }) {
  const { ledger, jobs, batches, webhooks, instances, workers, version, pending_migrations: pending } = system
  return (
    <Section title="Backlog and instances">
      <Stack>
        <Facts
          facts={[
            ['Pending charges', oldest(ledger.waiting, ledger.oldest_at)],
            ledger.refused > 0 ? ['Rejected charges', count(ledger.refused)] : null,
            ['Jobs queued', oldest(jobs.queued, jobs.oldest_at)],
            ['Jobs in progress', count(jobs.in_progress)],
            ['Unfinished batches', count(batches)],
            ['Webhooks pending', oldest(webhooks.pending, webhooks.oldest_at)],
            ['Workers', count(workers)],
            ['Version', version],
            ['Migrations', pending.length === 0 ? 'up to date' : `${pending.length} pending`],
          ]}
        />
        <DataTable
          label="Instances"
          rows={instances}
          columns={[
            {
              header: 'Instance',
              kind: 'rowHeader',
              maxWidth: 260,
              cell: ({ id }) => (
                <Text size="xs" ff="monospace">
                  {id}
                </Text>
              ),
            },
            { header: 'Last heartbeat', cell: ({ seen_at }) => <Time at={seen_at} /> },
          ]}
          rowKey={({ id }) => id}
        />
      </Stack>
    </Section>
  )
}

function oldest(waiting: number, at: string | null): string {
  return at === null ? count(waiting) : `${count(waiting)}, oldest ${ago(at)}`
}
