import type { RequestDetail, RequestFeedback } from '../../../wire/requests.ts'
import { Section } from '../../components/facts.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { KeyName } from '../../components/work/parts.tsx'
import { moment } from '../../format.ts'

/** The feedback on a request; nothing where there is none. */
export function Scores({ request: { feedback } }: { request: RequestDetail }) {
  if (feedback.length === 0) return null
  return (
    <Section title="Feedback">
      <DataTable
        label="Scores of the response, from −1 to 1"
        rows={feedback}
        columns={columns}
        rowKey={({ key, updated_at: at }) => `${key?.id} ${at}`}
        minWidth={480}
      />
    </Section>
  )
}

const columns: Column<RequestFeedback>[] = [
  { header: 'Score', kind: 'rowHeader', cell: ({ score }) => String(score).replace('-', '−') },
  { header: 'Comment', cell: ({ comment }) => comment ?? '–' },
  { header: 'Key', cell: ({ key }) => <KeyName value={key} /> },
  { header: 'Time', cell: ({ updated_at: at }) => moment(at) },
]
