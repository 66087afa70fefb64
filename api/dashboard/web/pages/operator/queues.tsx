import { Badge, Button, Group, SegmentedControl, Stack, Text, VisuallyHidden } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { useState } from 'react'
import type { EntriesChanged, EntryState, QueueEntry, QueueState } from '../../../wire/operator-home.ts'
import { Sparkline } from '../../components/charts/sparkline.tsx'
import { colorVariable } from '../../components/charts/time-chart.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { Section } from '../../components/facts.tsx'
import { useFilter } from '../../components/filters.tsx'
import { Empty, Failure, Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { ago, count } from '../../format.ts'
import { useEntries, useEntriesChange, useQueuePause, useQueues } from './home-queries.ts'

/** The queues: their backlog, throughput and entries. */
export function Queues() {
  const queues = useQueues()
  const [chosen, choose] = useFilter('queue')
  return (
    <Show query={queues}>
      {({ data }) => {
        const current = data.find(({ name }) => name === chosen)
        return (
          <Stack>
            <DataTable
              label="Queues"
              rows={data}
              columns={columns(choose)}
              rowKey={({ name }) => name}
              openedRow={chosen}
              minWidth={760}
            />
            {current ? (
              <Entries key={current.name} queue={current} />
            ) : (
              <Text size="sm" c="dimmed">
                Entries of media jobs, delayed jobs, batches and webhooks are removed when they end, whether or not they
                failed: the database keeps their state.
              </Text>
            )}
          </Stack>
        )
      }}
    </Show>
  )
}

const columns = (choose: (name: string) => void): Column<QueueState>[] => [
  {
    header: 'Queue',
    card: 'lead',
    kind: 'rowHeader',
    cell: ({ name, paused, workers }) => (
      <>
        {name} {paused && <Status value="paused" />}
        {workers === 0 && (
          <Badge color="red" size="sm">
            no worker
          </Badge>
        )}
      </>
    ),
  },
  {
    header: 'Waiting',
    card: 'labelled',
    kind: 'number',
    cell: ({ waiting, oldest_at: at }) => (
      <>
        {count(waiting)}
        {at !== null && (
          <Text size="xs" c="dimmed">
            oldest {ago(at)}
          </Text>
        )}
      </>
    ),
  },
  { header: 'Active', card: 'labelled', kind: 'number', cell: ({ active }) => count(active) },
  { header: 'Delayed', card: 'labelled', kind: 'number', cell: ({ delayed }) => count(delayed) },
  { header: 'Failed', card: 'labelled', kind: 'number', cell: ({ failed }) => count(failed) },
  { header: 'Workers', card: 'labelled', kind: 'number', cell: ({ workers }) => count(workers) },
  {
    header: 'Completed per minute',
    width: 150,
    cell: ({ completed }) =>
      completed.length === 0 ? (
        '–'
      ) : (
        <>
          <Text size="xs">{count(completed.at(-1)!)}</Text>
          <Sparkline values={completed} color={colorVariable('water.5')} />
        </>
      ),
  },
  {
    header: 'Actions',
    card: 'line',
    kind: 'actions',
    cell: ({ name, paused }) => (
      <Group gap={6} wrap="nowrap" justify="flex-end">
        <Button size="compact-sm" variant="default" onClick={() => choose(name)}>
          Entries<VisuallyHidden> of {name}</VisuallyHidden>
        </Button>
        <PauseButton name={name} paused={paused} />
      </Group>
    ),
  },
]

function PauseButton({ name, paused }: Pick<QueueState, 'name' | 'paused'>) {
  const [asked, setAsked] = useState(false)
  const change = useQueuePause(name)
  const apply = () => change.mutate(!paused, { onSuccess: () => setAsked(false) })
  return (
    <>
      <Button
        size="compact-sm"
        variant={paused ? 'filled' : 'default'}
        loading={change.isPending && !asked}
        onClick={() => (paused ? apply() : setAsked(true))}
      >
        {paused ? 'Resume' : 'Pause'}
        <VisuallyHidden> {name}</VisuallyHidden>
      </Button>
      {asked && (
        <Confirm
          title={`Pause the queue ${name}?`}
          action="Pause queue"
          danger={false}
          pending={change.isPending}
          error={change.error}
          onConfirm={apply}
          onClose={() => setAsked(false)}
        >
          No worker starts an entry of it until it is resumed. Entries that are running finish.
        </Confirm>
      )}
    </>
  )
}

const states: { value: EntryState; label: string }[] = [
  { value: 'failed', label: 'Failed' },
  { value: 'delayed', label: 'Delayed' },
  { value: 'active', label: 'Active' },
  { value: 'waiting', label: 'Waiting' },
]

function Entries({ queue }: { queue: QueueState }) {
  const { name } = queue
  const [state, setState] = useState<EntryState>(queue.failed > 0 ? 'failed' : 'delayed')
  const entries = useEntries(name, state)
  const notify = (what: string) => (answer: EntriesChanged) =>
    notifications.show({
      title: `${count(answer.changed)} ${answer.changed === 1 ? 'entry' : 'entries'} ${what}`,
      message: answer.skipped > 0 ? `${count(answer.skipped)} could not be: running, gone or periodic.` : name,
    })
  const retry = useEntriesChange(name, 'retry', notify('queued again'))
  const remove = useEntriesChange(name, 'remove', notify('removed'))
  const [isRemoving, setRemoving] = useState(false)
  // The dialog shows its own error.
  const error = retry.error ?? (isRemoving ? null : remove.error)
  const failedEntries = queue.failed === 1 ? '1 failed entry' : `${count(queue.failed)} failed entries`
  return (
    <Section title={`Entries of ${name}`}>
      <Stack>
        <Group justify="space-between">
          <SegmentedControl
            size="xs"
            aria-label="State"
            data={states}
            value={state}
            onChange={value => setState(value as EntryState)}
          />
          {state === 'failed' && queue.failed > 0 && (
            <Group gap="xs">
              <Button size="xs" variant="default" loading={retry.isPending} onClick={() => retry.mutate(null)}>
                Retry all
              </Button>
              <Button size="xs" variant="default" loading={remove.isPending} onClick={() => setRemoving(true)}>
                Remove all
              </Button>
            </Group>
          )}
        </Group>
        {error && <Failure error={error} />}
        {isRemoving && (
          <Confirm
            title={`Remove ${failedEntries} of ${name}`}
            action="Remove all"
            pending={remove.isPending}
            error={remove.error}
            onConfirm={() => remove.mutate(null, { onSuccess: () => setRemoving(false) })}
            onClose={() => setRemoving(false)}
          >
            They are never tried again, and their errors can no longer be read. This cannot be undone. What they were
            about, such as a job or a webhook, stays; the periodic sweeps queue unfinished work again.
          </Confirm>
        )}
        <Show query={entries} rows={3}>
          {({ data, total }) => (
            <>
              <DataTable
                label={`Entries of ${name}`}
                rows={data}
                columns={entryColumns(state, {
                  retry: id => retry.mutate([id]),
                  remove: id => remove.mutate([id]),
                })}
                rowKey={({ id }) => id}
                minWidth={640}
                empty={<Empty title={`No ${state} entries`} />}
              />
              {total > data.length && (
                <Text size="xs" c="dimmed">
                  The oldest {count(data.length)} of {count(total)}.
                </Text>
              )}
            </>
          )}
        </Show>
      </Stack>
    </Section>
  )
}

type EntryActions = { retry: (id: string) => void; remove: (id: string) => void }

const entryColumns = (state: EntryState, { retry, remove }: EntryActions): Column<QueueEntry>[] => [
  {
    header: 'Entry',
    card: 'lead',
    kind: 'rowHeader',
    maxWidth: 420,
    cell: ({ id, task, of, reason }) => (
      <>
        <Text size="sm">{task}</Text>
        <Text size="xs" c="dimmed" ff="monospace">
          {of ?? id}
        </Text>
        {reason !== null && (
          <Text size="xs" c="var(--mantine-color-error)">
            {reason}
          </Text>
        )}
      </>
    ),
  },
  { header: 'Attempts', card: 'labelled', kind: 'number', cell: ({ attempts }) => count(attempts) },
  { header: 'Added', card: 'labelled', nowrap: true, cell: ({ added_at }) => <Time at={added_at} /> },
  ...(state === 'delayed'
    ? [
        {
          header: 'Due',
          card: 'labelled' as const,
          nowrap: true,
          cell: ({ due_at: at }: QueueEntry) => (at === null ? '–' : <Time at={at} />),
        },
      ]
    : []),
  ...(state === 'active'
    ? []
    : [
        {
          header: 'Actions',
          card: 'line' as const,
          kind: 'actions' as const,
          cell: ({ id, task }: QueueEntry) => (
            <Group gap={6} wrap="nowrap" justify="flex-end">
              {state !== 'waiting' && (
                <Button size="compact-sm" variant="default" onClick={() => retry(id)}>
                  {state === 'failed' ? 'Retry' : 'Run now'}
                  <VisuallyHidden> {task}</VisuallyHidden>
                </Button>
              )}
              <Button size="compact-sm" variant="default" onClick={() => remove(id)}>
                Remove<VisuallyHidden> {task}</VisuallyHidden>
              </Button>
            </Group>
          ),
        },
      ]),
]
