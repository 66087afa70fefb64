import { Anchor, Table, Text } from '@mantine/core'
import { IconDownload } from '@tabler/icons-react'
import type { BatchDetail, BatchFileName } from '../../../wire/batches.ts'
import { Section } from '../../components/facts.tsx'
import { bytes } from '../../format.ts'
import { usePlace } from '../../session.tsx'

const names: Record<BatchFileName, string> = { input: 'Input', output: 'Output', errors: 'Errors' }

/** The files of a batch, to be saved. */
export function Files({ batch }: { batch: BatchDetail }) {
  const { base } = usePlace()
  return (
    <Section title="Files">
      {batch.files.length === 0 ? (
        <Text size="sm" c="dimmed">
          The files of this batch are deleted.
        </Text>
      ) : (
        <Table>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>File</Table.Th>
              <Table.Th>Name</Table.Th>
              <Table.Th ta="right">Size</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {batch.files.map(({ file, id, filename, bytes: size }) => (
              <Table.Tr key={file}>
                <Table.Td>{names[file]}</Table.Td>
                <Table.Td style={{ overflowWrap: 'anywhere' }}>
                  <Anchor
                    href={`${base}/batches/${batch.id}/files/${file}`}
                    download={filename}
                    size="sm"
                    aria-label={`Download the ${file} file ${filename}`}
                  >
                    <IconDownload size={15} aria-hidden style={{ verticalAlign: 'text-bottom' }} /> {filename}
                  </Anchor>
                  <Text size="xs" c="dimmed" ff="monospace">
                    {id}
                  </Text>
                </Table.Td>
                <Table.Td ta="right" className="numeric" style={{ whiteSpace: 'nowrap' }}>
                  {bytes(size)}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
    </Section>
  )
}
