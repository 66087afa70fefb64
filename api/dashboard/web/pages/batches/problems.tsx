import { Text } from '@mantine/core'
import type { BatchDetail, BatchErrors } from '../../../wire/batches.ts'
import { Section } from '../../components/facts.tsx'
import { Show } from '../../components/states.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { WithCode } from '../../components/with-code.tsx'
import { count } from '../../format.ts'
import { useErrors } from './queries.ts'

const faultColumns: Column<BatchDetail['faults'][number]>[] = [
  { header: 'Line', kind: 'number', width: 80, cell: ({ line }) => (line === null ? 'file' : count(line)) },
  { header: 'Code', cell: ({ code }) => <code>{code}</code> },
  { header: 'Message', cell: ({ message }) => <WithCode>{message}</WithCode> },
]

/** The input errors of a failed batch. */
export function Faults({ faults }: { faults: BatchDetail['faults'] }) {
  return (
    <Section title="Input errors">
      <DataTable
        label="Input errors"
        rows={faults}
        columns={faultColumns}
        rowKey={({ line, code, message, param }) => `${line} ${code} ${param} ${message}`}
        minWidth={480}
      />
    </Section>
  )
}

const errorColumns: Column<BatchErrors['data'][number]>[] = [
  { header: 'Custom ID', kind: 'rowHeader', maxWidth: 240, cell: ({ custom_id }) => custom_id },
  { header: 'Status', cell: ({ status }) => status ?? 'not started' },
  { header: 'Code', cell: ({ code }) => <code>{code}</code> },
  { header: 'Message', maxWidth: 480, cell: ({ message }) => <WithCode>{message}</WithCode> },
]

/** The first lines of the error file. */
export function Errors({ id }: { id: string }) {
  const errors = useErrors(id)
  return (
    <Section title="Errors">
      <Show query={errors} rows={2}>
        {({ data, has_more }) => (
          <>
            <DataTable
              label="Errors"
              rows={data}
              columns={errorColumns}
              rowKey={({ custom_id }) => custom_id}
              minWidth={560}
            />
            {has_more && (
              <Text size="sm" c="dimmed">
                Only the first {count(data.length)} are shown. Download the error file to see all of them.
              </Text>
            )}
          </>
        )}
      </Show>
    </Section>
  )
}
