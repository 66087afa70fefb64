import { Group, Stack, Text } from '@mantine/core'
import { PlaceContext, servicePlaceOf, useMe } from '../../session.tsx'
import { ExportPage } from '../log-exports/export.tsx'
import { AddExport, ExportList } from '../log-exports/index.tsx'

/** The operator's exports of the logs of all organisations, or one of them. */
export default function OperatorLogExports({ id }: { id?: string }) {
  const me = useMe().data
  if (!me) return null
  return (
    <PlaceContext value={servicePlaceOf(me)}>
      {id === undefined ? (
        <Stack>
          <Group justify="space-between" align="flex-start">
            <Text size="sm" c="dimmed" maw={720} flex="1 1 320px">
              Delivers the logs of all organisations to systems of the operator, in order and at least once. The audit
              log of operators is among them.
            </Text>
            <AddExport />
          </Group>
          <ExportList />
        </Stack>
      ) : (
        <ExportPage key={id} id={id} />
      )}
    </PlaceContext>
  )
}
