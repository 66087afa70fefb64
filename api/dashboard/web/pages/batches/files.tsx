import { Anchor, Text } from '@mantine/core'
import { IconDownload } from '@tabler/icons-react'
import type { BatchDetail, BatchFileName } from '../../../wire/batches.ts'
import { Section } from '../../components/facts.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { bytes } from '../../format.ts'
import { usePlace } from '../../session.tsx'

const names: Record<BatchFileName, string> = { input: 'Input', output: 'Output', errors: 'Errors' }

/** The files of a batch, with their download links. */
export function Files({ batch }: { batch: BatchDetail }) {
  const { base } = usePlace()
  return (
    <Section title="Files">
      <DataTable
        label="Files"
        rows={batch.files}
        columns={columns(`${base}/batches/${batch.id}/files`)}
        rowKey={({ file }) => file}
        empty={
          <Text size="sm" c="dimmed">
            The files of this batch have been deleted.
          </Text>
        }
      />
    </Section>
  )
}

const columns = (url: string): Column<BatchDetail['files'][number]>[] => [
  { header: 'File', kind: 'rowHeader', cell: ({ file }) => names[file] },
  {
    header: 'Name',
    maxWidth: 320,
    cell: ({ file, id, filename }) => (
      <>
        <Anchor
          href={`${url}/${file}`}
          download={filename}
          size="sm"
          aria-label={`Download the ${file} file ${filename}`}
        >
          <IconDownload size={15} aria-hidden style={{ verticalAlign: 'text-bottom' }} /> {filename}
        </Anchor>
        <Text size="xs" c="dimmed" ff="monospace">
          {id}
        </Text>
      </>
    ),
  },
  { header: 'Size', kind: 'number', nowrap: true, cell: ({ bytes: size }) => bytes(size) },
]
