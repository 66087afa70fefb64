import { Accordion, Box, Grid, Paper, Stack } from '@mantine/core'
import type { ReactNode } from 'react'
import { CodeBox, Snippets } from '../../components/copy.tsx'
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
    <Shown label={label}>
      <CodeBox code={code} label="command" />
    </Shown>
  )
}

/** The equivalent request in several languages. */
export function Equivalent(props: Parameters<typeof Snippets>[0]) {
  return (
    <Shown label="Equivalent request">
      <Snippets {...props} />
    </Shown>
  )
}

function Shown({ label, children }: { label: string; children: ReactNode }) {
  return (
    <Accordion variant="contained" defaultValue="code">
      <Accordion.Item value="code">
        <Accordion.Control>{label}</Accordion.Control>
        <Accordion.Panel>
          <Box mah={maxHeight} style={{ overflowY: 'auto' }}>
            {children}
          </Box>
        </Accordion.Panel>
      </Accordion.Item>
    </Accordion>
  )
}
