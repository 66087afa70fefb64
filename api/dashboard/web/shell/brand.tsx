import { Group, Text } from '@mantine/core'

/** The product's logo and name. */
export function Brand() {
  return (
    <Group gap={8} wrap="nowrap">
      <img src="/dashboard/icon.svg" alt="" width={24} height={24} />
      <Text fw={700} span>
        Headgate
      </Text>
    </Group>
  )
}
