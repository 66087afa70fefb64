import { Alert, Button, Code, Group, SimpleGrid, Stack, Text } from '@mantine/core'
import { IconAlertTriangle, IconDownload } from '@tabler/icons-react'
import { Copy } from '../../components/copy.tsx'

/** Shows new backup codes once. */
export function BackupCodes({ codes, onDone }: { codes: string[]; onDone: () => void }) {
  const text = `${codes.join('\n')}\n`
  return (
    <Stack maw={440} gap="sm">
      <Alert color="yellow" variant="light" icon={<IconAlertTriangle aria-hidden />} title="Save your backup codes">
        <Text size="sm">
          Use a backup code to sign in when you do not have your phone. Each code works once. They will not be shown
          again.
        </Text>
      </Alert>
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="xs" role="list" aria-label="Backup codes">
        {codes.map(code => (
          <Code key={code} role="listitem" ta="center" fz="sm">
            {code}
          </Code>
        ))}
      </SimpleGrid>
      <Group gap="xs">
        <Copy value={text} label="backup codes" />
        <Button
          component="a"
          variant="default"
          href={`data:text/plain;charset=utf-8,${encodeURIComponent(text)}`}
          download="headgate-backup-codes.txt"
          leftSection={<IconDownload size={16} aria-hidden />}
        >
          Download
        </Button>
        <Button onClick={onDone}>I have saved them</Button>
      </Group>
    </Stack>
  )
}
