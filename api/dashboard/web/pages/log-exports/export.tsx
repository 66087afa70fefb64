import { Alert, Button, Menu, Stack, Text, Title } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { useState } from 'react'
import { useLocation } from 'wouter'
import type { DashboardExport, ExportReplay, ExportStreamState } from '../../../wire/log-exports.ts'
import { Confirm } from '../../components/confirm.tsx'
import { OpenModal } from '../../components/dialogs.tsx'
import { Facts } from '../../components/facts.tsx'
import { Form } from '../../components/form.tsx'
import { MomentInput } from '../../components/moment-input.tsx'
import { Page } from '../../components/page.tsx'
import { SigningSecret } from '../../components/signing-secret.tsx'
import { Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { Trail } from '../../components/work/parts.tsx'
import { count, duration, moment, percent } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { EditExport } from './export-form.tsx'
import {
  useCancelReplay,
  useDeleteExport,
  useExport,
  usePatchExport,
  useReplay,
  useRollExport,
  useTestExport,
} from './queries.ts'

/** One export: the state of its streams, its gaps and its replays. */
export function ExportPage({ id }: { id: string }) {
  const { home } = usePlace()
  const query = useExport(id)
  return (
    <Stack gap="sm">
      <Trail href={`${home}/log-exports`} list="Log exports">
        {id}
      </Trail>
      <Page
        title={query.data?.data.name ?? 'Log export'}
        {...(query.data && { description: <Status value={query.data.data.status} /> })}
        actions={query.data && <Actions one={query.data.data} />}
      >
        <Show query={query}>{({ data }) => <Details one={data} />}</Show>
      </Page>
    </Stack>
  )
}

/** Where an export goes. */
export function destinationOf({ kind, bucket, prefix, url }: DashboardExport): string {
  return kind === 's3' ? `s3://${bucket}/${prefix ?? ''}` : `${url}`
}

function Details({ one }: { one: DashboardExport }) {
  const { environment, format, gzip, interval_s, headers, previous_secret_valid_until: until } = one
  const gaps = one.state.flatMap(({ stream, gaps }) => gaps.map(gap => ({ stream, ...gap })))
  return (
    <Stack>
      {one.status === 'paused' && (
        <Alert color="red" title="Paused">
          Its batches were not accepted for days. After the fault is mended, enable it: it continues where it was.
        </Alert>
      )}
      {gaps.map(({ stream, from, to, reason }) => (
        <Alert key={`${stream} ${from}`} color="yellow" title={`Gap in ${stream}`}>
          {moment(from)} to {moment(to)}:{' '}
          {reason === 'retention'
            ? 'rows were deleted by their age before they were delivered.'
            : 'the database was restored; replay this window to be sure.'}
        </Alert>
      ))}
      <Facts
        facts={[
          ['Destination', destinationOf(one)],
          ['Format', `${format}${gzip ? ', gzip' : ''}`],
          ['Environment', environment ?? 'live and test'],
          ['Waits for a batch', duration(interval_s * 1_000)],
          headers.length === 0 ? null : ['Headers', headers.join(', ')],
          until === null ? null : ['Previous secret also signs until', moment(until)],
          ['Created', moment(one.created_at)],
        ]}
      />
      <Title order={2}>Streams</Title>
      <DataTable
        label="Streams"
        rows={one.state}
        columns={streamColumns}
        rowKey={({ stream }) => stream}
        minWidth={720}
      />
      {one.replays.length > 0 && (
        <>
          <Title order={2}>Replays</Title>
          <DataTable
            label="Replays"
            rows={one.replays}
            columns={replayColumns(one.id)}
            rowKey={({ id }) => id}
            minWidth={720}
          />
        </>
      )}
    </Stack>
  )
}

const streamColumns: Column<ExportStreamState>[] = [
  { header: 'Stream', kind: 'rowHeader', cell: ({ stream }) => stream },
  { header: 'Behind', kind: 'number', nowrap: true, cell: ({ lag_s }) => duration(lag_s * 1_000) },
  { header: 'Rows', kind: 'number', cell: ({ rows }) => count(rows) },
  { header: 'Batches', kind: 'number', cell: ({ batches }) => count(batches) },
  { header: 'Last delivered', nowrap: true, cell: ({ last_delivered_at: at }) => (at ? <Time at={at} /> : '–') },
  {
    header: 'Last error',
    maxWidth: 320,
    cell: ({ attempts, last_error, last_error_at }) =>
      last_error === null || last_error_at === null ? (
        '–'
      ) : (
        <>
          <Text size="sm" lineClamp={2} title={last_error}>
            {last_error}
          </Text>
          <Text size="xs" c="dimmed" component="div">
            <Time at={last_error_at} />
            {attempts > 0 && `, ${attempts} attempts at this batch`}
          </Text>
        </>
      ),
  },
]

const replayColumns = (exportId: string): Column<ExportReplay>[] => [
  {
    header: 'Window',
    kind: 'rowHeader',
    maxWidth: 300,
    cell: ({ stream, from, to }) => (
      <>
        <Text size="sm">{stream}</Text>
        <Text size="xs" c="dimmed">
          {moment(from)} to {moment(to)}
        </Text>
      </>
    ),
  },
  { header: 'Status', cell: ({ status }) => <Status value={status} /> },
  { header: 'Progress', kind: 'number', cell: ({ progress }) => percent(progress) },
  { header: 'Rows', kind: 'number', cell: ({ rows }) => count(rows) },
  { header: 'Last error', maxWidth: 240, cell: ({ last_error }) => last_error ?? '–' },
  {
    header: 'Actions',
    cell: replay => replay.status === 'running' && <CancelReplay exportId={exportId} id={replay.id} />,
  },
]

function CancelReplay({ exportId, id }: { exportId: string; id: string }) {
  const cancel = useCancelReplay(exportId)
  return (
    <Button size="xs" variant="default" loading={cancel.isPending} onClick={() => cancel.mutate(id)}>
      Cancel
    </Button>
  )
}

type Asked = 'edit' | 'replay' | 'roll' | 'delete' | null

function Actions({ one }: { one: DashboardExport }) {
  const { home } = usePlace()
  const [, go] = useLocation()
  const [asked, setAsked] = useState<Asked>(null)
  const [secret, setSecret] = useState<string | null>(null)
  const close = () => setAsked(null)
  const toggle = usePatchExport(one.id, { enabled: !one.enabled })
  const roll = useRollExport(one.id, answer => {
    close()
    setSecret(answer.secret)
  })
  const remove = useDeleteExport(one.id, () => go(`${home}/log-exports`))
  return (
    <>
      <Button variant="default" loading={toggle.isPending} onClick={() => toggle.mutate()}>
        {one.enabled ? 'Disable' : 'Enable'}
      </Button>
      <Button variant="default" onClick={() => setAsked('replay')}>
        Replay
      </Button>
      <Menu>
        <Menu.Target>
          <Button variant="default">More</Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => setAsked('edit')}>Edit</Menu.Item>
          {one.kind === 'https' && <Menu.Item onClick={() => setAsked('roll')}>Roll secret</Menu.Item>}
          <Menu.Item color="red" onClick={() => setAsked('delete')}>
            Delete
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <TestButton id={one.id} />
      {asked === 'edit' && <EditExport one={one} onClose={close} />}
      {asked === 'replay' && <ReplayForm id={one.id} onClose={close} />}
      {asked === 'roll' && (
        <Confirm
          title="Roll the signing secret"
          action="Roll secret"
          danger={false}
          pending={roll.isPending}
          error={roll.error}
          onConfirm={() => roll.mutate()}
          onClose={close}
        >
          Creates a new secret for this export. For 24 hours, its batches are signed with both secrets.
        </Confirm>
      )}
      {asked === 'delete' && (
        <Confirm
          title="Delete the log export"
          action="Delete export"
          pending={remove.isPending}
          error={remove.error}
          onConfirm={() => remove.mutate()}
          onClose={close}
        >
          Nothing more is sent to {destinationOf(one)}, and its position in the log is deleted.
        </Confirm>
      )}
      {secret !== null && <SigningSecret secret={secret} onClose={() => setSecret(null)} />}
    </>
  )
}

/** Sends a sample and shows what the destination answered. */
function TestButton({ id }: { id: string }) {
  const test = useTestExport(id)
  const send = () =>
    test.mutate(undefined, {
      onSuccess: ({ delivered, status, error, response }) =>
        notifications.show({
          ...(!delivered && { color: 'red' }),
          title: delivered ? 'The sample was accepted' : 'The sample was not accepted',
          message: status === null ? error : `HTTP ${status}${response ? `: ${response}` : ''}`,
        }),
      onError: error => notifications.show({ color: 'red', title: 'No sample was sent', message: error.message }),
    })
  return (
    <Button loading={test.isPending} onClick={send}>
      Test
    </Button>
  )
}

function ReplayForm({ id, onClose }: { id: string; onClose: () => void }) {
  const [from, setFrom] = useState('')
  const [to, setTo] = useState('')
  const replay = useReplay(id, { from, to }, onClose)
  return (
    <OpenModal onClose={onClose} title="Replay a window" centered>
      <Form mutation={replay} submit="Start replay" disabled={from === '' || to === ''}>
        <Text size="sm">Delivers the rows of a window once more, beside what is delivered now.</Text>
        <MomentInput label="From" required value={from} onChange={setFrom} />
        <MomentInput label="To" required value={to} onChange={setTo} />
      </Form>
    </OpenModal>
  )
}
