import { Accordion, Box, Grid, Paper, Stack } from '@mantine/core'
import type { ReactNode } from 'react'
import { CodeBox } from '../../components/copy.tsx'
import { type CurlRequest, curlOf } from './curl.ts'

const maxHeight = 380

/** A tab's form beside its result, and the equivalent command. */
export function Panels({ form, result, ...curl }: { form: ReactNode; result: ReactNode } & CurlProps) {
  return (
    <Grid gap="md">
      <Grid.Col span={{ base: 12, md: 5 }}>
        <Paper withBorder p="md">
          {form}
        </Paper>
      </Grid.Col>
      <Grid.Col span={{ base: 12, md: 7 }}>
        <Stack gap="md">
          {result}
          <Curl {...curl} />
        </Stack>
      </Grid.Col>
    </Grid>
  )
}

/** `code`: shown in place of a request that curl cannot make. */
type CurlProps = { request: CurlRequest } | { code: string; label: string }

/** The equivalent curl command. */
export function Curl(props: CurlProps) {
  const { code, label } = 'request' in props ? { code: curlOf(props.request), label: 'Equivalent curl request' } : props
  return (
    <Accordion variant="contained" defaultValue="curl">
      <Accordion.Item value="curl">
        <Accordion.Control>{label}</Accordion.Control>
        <Accordion.Panel>
          <Box mah={maxHeight} style={{ overflowY: 'auto' }}>
            <CodeBox code={code} label="command" />
          </Box>
        </Accordion.Panel>
      </Accordion.Item>
    </Accordion>
  )
}
