mod law;
mod planner;
mod setting;
