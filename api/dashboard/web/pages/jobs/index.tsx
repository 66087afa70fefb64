import { Route, Switch } from 'wouter'
import { JobPage } from './detail.tsx'
import { JobList } from './list.tsx'

export default function Jobs() {
  return (
    <Switch>
      <Route path="/:organisation/jobs/:id">{({ id }) => <JobPage key={id} id={id} />}</Route>
      <Route>
        <JobList />
      </Route>
    </Switch>
  )
}
