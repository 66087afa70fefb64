import { Table, Text } from '@mantine/core'
import type { BatchDetail } from '../../../wire/batches.ts'
import { Section } from '../../components/facts.tsx'
import { Show } from '../../components/states.tsx'
import { count } from '../../format.ts'
import { useErrors } from './queries.ts'

/** What is wrong with the input of a batch that failed. */
export function Faults({ faults }: { faults: BatchDetail['faults'] }) {
  return (
    <Section title="Faults of the input">
      <Table.ScrollContainer minWidth={480}>
        <Table>
          <Table.Thead>
            <Table.Tr>
              <Table.Th ta="right" w={80}>
                Line
              </Table.Th>
              <Table.Th>Code</Table.Th>
              <Table.Th>Message</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {faults.map(({ line, code, message, param }) => (
              <Table.Tr key={`${line} ${code} ${param} ${message}`}>
                <Table.Td ta="right" className="numeric">
                  {line === null ? 'file' : count(line)}
                </Table.Td>
                <Table.Td>
                  <code>{code}</code>
                </Table.Td>
                <Table.Td>{message}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Section>
  )
}

/** The first lines of the error file. */
export function Errors({ id }: { id: string }) {
  const errors = useErrors(id)
  return (
    <Section title="Errors">
      <Show query={errors} rows={2}>
        {({ data, has_more }) => (
          <>
            <Table.ScrollContainer minWidth={560}>
              <Table>
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>Line’s id</Table.Th>
                    <Table.Th>Status</Table.Th>
                    <Table.Th>Code</Table.Th>
                    <Table.Th>Message</Table.Th>
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {data.map(({ custom_id, status, code, message }) => (
                    <Table.Tr key={custom_id}>
                      <Table.Td style={{ overflowWrap: 'anywhere' }}>{custom_id}</Table.Td>
                      <Table.Td className="numeric">{status ?? 'not run'}</Table.Td>
                      <Table.Td>
                        <code>{code}</code>
                      </Table.Td>
                      <Table.Td style={{ overflowWrap: 'anywhere' }}>{message}</Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </Table>
            </Table.ScrollContainer>
            {has_more && (
              <Text size="sm" c="dimmed">
                These are the first {count(data.length)}. The error file has all of them.
              </Text>
            )}
          </>
        )}
      </Show>
    </Section>
  )
}
